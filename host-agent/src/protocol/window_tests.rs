use super::*;

const MS: Duration = Duration::from_millis(1);

#[test]
fn window_is_bounded_by_slots_and_limits() {
    let limits = WindowLimits { start: 16, min: 2, max: 64 };
    assert_eq!(Window::new(limits, 4).size(), 4);
    assert_eq!(Window::new(limits, 1).size(), 1);
    let mut window = Window::new(limits, 1000);
    assert_eq!(window.size(), 16);
    for _ in 0..1000 {
        window.on_result();
    }
    assert_eq!(window.size(), 64);
}

#[test]
fn window_halves_once_a_round_trip_and_then_grows_by_one_a_window() {
    let start = Instant::now();
    let mut window = Window::new(WindowLimits { start: 64, min: 2, max: 128 }, 128);
    window.on_loss(start, start + 10 * MS, MS);
    assert_eq!(window.size(), 32);
    window.on_loss(start + MS, start + 11 * MS, MS);
    assert_eq!(window.size(), 32, "sent before the reduction: the same loss");
    for _ in 0..32 {
        window.on_result();
    }
    assert_eq!(window.size(), 33, "one window of results is one slot more");
    for round in 1..20 {
        window.on_loss(start + (20 * round) * MS, start + (20 * round + 10) * MS, MS);
    }
    assert_eq!(window.size(), 2);
    assert!(window.reductions() > 5);
}
