//! How often one caller may call: a bucket of tokens for each, filled at a steady rate. Pure: the time is an argument.
//!
//! A few dozen lines rather than a crate: those there are bring a clock and concurrent maps of their own.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ApiError;

/// Callers that are remembered; above, those with full buckets are forgotten, which changes nothing for them.
const REMEMBERED: usize = 4096;

/// The buckets.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// Calls a second; 0: no limit.
    rate: f64,
    /// Calls at once.
    burst: f64,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Limiter {
    /// So many calls a second, twice as many at once; 0: as many as they like.
    pub(crate) fn new(per_second: u32) -> Self {
        let rate = f64::from(per_second);
        Self { rate, burst: 2.0 * rate, buckets: Mutex::default() }
    }

    /// Counts a call, or refuses it and says when to come again.
    pub(crate) fn take(&self, now: Instant, who: &str) -> Result<(), ApiError> {
        if self.rate == 0.0 {
            return Ok(());
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= REMEMBERED && !buckets.contains_key(who) {
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.burst);
            if buckets.len() >= REMEMBERED {
                return Err(ApiError::TooMany { who: who.to_owned(), again: Duration::from_secs(1) });
            }
        }
        let bucket = buckets.entry(who.to_owned()).or_insert(Bucket { left: self.burst, at: now });
        bucket.left = self.filled(bucket, now);
        bucket.at = now;
        if bucket.left < 1.0 {
            let again = Duration::from_secs_f64((1.0 - bucket.left) / self.rate);
            return Err(ApiError::TooMany { who: who.to_owned(), again });
        }
        bucket.left -= 1.0;
        Ok(())
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.left + since * self.rate).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let limiter = Limiter::new(10);
        let start = Instant::now();
        let allowed = |at: Instant| (0..100).filter(|_| limiter.take(at, "a").is_ok()).count();
        assert_eq!(allowed(start), 20);
        assert_eq!(allowed(start), 0);
        assert_eq!(allowed(start + Duration::from_millis(550)), 5);
        assert_eq!(allowed(start + Duration::from_secs(3600)), 20);
        let Err(ApiError::TooMany { again, .. }) = limiter.take(start + Duration::from_secs(3600), "a")
        else {
            panic!("allowed")
        };
        assert_eq!(again, Duration::from_millis(100));
    }

    #[test]
    fn callers_do_not_disturb_each_other_and_there_may_be_many() {
        let limiter = Limiter::new(1);
        let start = Instant::now();
        assert!((0..REMEMBERED).all(|caller| limiter.take(start, &caller.to_string()).is_ok()));
        assert!(limiter.take(start, "one more").is_err());
        // They have been silent long enough.
        assert!(limiter.take(start + Duration::from_secs(2), "one more").is_ok());
        assert!(limiter.buckets.lock().unwrap().len() < 10);
    }

    #[test]
    fn none_is_no_limit() {
        let limiter = Limiter::new(0);
        let now = Instant::now();
        assert!((0..10_000).all(|_| limiter.take(now, "a").is_ok()));
    }
}
