//! Locations that somebody made up cost no memory.

use format::limits::RECORD_BYTES_MAX;
use ids::{ContainerNo, RecordLocation};
use stored::*;

#[test]
fn a_location_of_any_length_costs_no_more_memory_than_the_longest_record() {
    let (_folder, repository, lease) = made();
    store(&repository, &lease, 1, 1000);
    for length in [RECORD_BYTES_MAX as u32 + 1, u32::MAX] {
        let location = RecordLocation { container: ContainerNo(1), offset: 64, length };
        let mut buffer = Vec::new();
        assert!(repository.read(location, &mut buffer).is_err());
        assert!(!repository.heal(location, &mut buffer));
        assert!(buffer.capacity() <= RECORD_BYTES_MAX, "{} bytes", buffer.capacity());
    }
}
