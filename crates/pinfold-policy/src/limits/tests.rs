use super::*;
use proptest::prelude::*;

#[test]
fn sizes_are_binary() {
    assert_eq!("8G".parse::<ByteSize>().unwrap().bytes(), 8 << 30);
    assert_eq!("8g".parse::<ByteSize>().unwrap().bytes(), 8 << 30);
    assert_eq!("512M".parse::<ByteSize>().unwrap().bytes(), 512 << 20);
    assert_eq!("1024".parse::<ByteSize>().unwrap().to_string(), "1K");
    for bad in ["", "G", "8 G", "-1G", "8gib", "8Gb", "1.5G", "99999999999T", "٣G", "+1G"] {
        assert_eq!(bad.parse::<ByteSize>(), Err(LimitError::Size), "{bad}");
    }
    assert_eq!("0G".parse::<ByteSize>(), Err(LimitError::Zero));
}

#[test]
fn cpus_are_thousandths() {
    assert_eq!("0.5".parse::<MilliCpus>().unwrap().thousandths(), 500);
    assert_eq!("4".parse::<MilliCpus>().unwrap().to_string(), "4");
    for bad in ["0", "-1", "NaN", "inf", "1e9", "x"] {
        assert_eq!(bad.parse::<MilliCpus>(), Err(LimitError::Cpus), "{bad}");
    }
}

#[test]
fn times_are_read_as_people_write_them() {
    assert_eq!("2h 30m".parse::<WallTime>().unwrap().duration().as_secs(), 9000);
    assert_eq!("0s".parse::<WallTime>(), Err(LimitError::Zero));
    assert_eq!("90".parse::<WallTime>(), Err(LimitError::Time));
}

proptest! {
    #[test]
    fn a_size_survives_being_shown(bytes in 1u64..) {
        let size = ByteSize::from_bytes(bytes);
        prop_assert_eq!(size.to_string().parse::<ByteSize>().unwrap(), size);
    }

    #[test]
    fn no_text_makes_a_limit_panic(text in ".*") {
        let _ = text.parse::<ByteSize>();
        let _ = text.parse::<MilliCpus>();
        let _ = text.parse::<WallTime>();
    }
}
