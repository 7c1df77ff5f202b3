//! Walks trees and reads what is in them.
