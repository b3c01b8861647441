use super::*;

#[test]
fn an_image_is_old_seven_days_after_it_was_made_or_asked_for() {
    let now = SystemTime::now();
    let day = Duration::from_secs(24 * 60 * 60);
    let ago = |days: u32| now.checked_sub(day * days);
    assert!(!is_old(now, ago(7), None));
    assert!(is_old(now, now.checked_sub(7 * day + Duration::from_secs(1)), None));
    assert!(!is_old(now, ago(400), ago(1)));
    assert!(is_old(now, Some(SystemTime::UNIX_EPOCH), ago(8)));
    assert!(!is_old(now, now.checked_add(day), None));
    assert!(is_old(now, None, None));
}
