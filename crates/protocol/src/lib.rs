//! Packets between agents and servers: pure state machines and codecs.
