//! Ratios of paired measurements, and how far they can be trusted.
//!
//! A round gives one ratio. Ratios multiply, so the arithmetic is done on their logarithms: the
//! estimate is the geometric mean, and the interval is Student's t over the rounds. Few rounds
//! are usual (each costs half a minute), and then t says so with a wide interval, where a
//! bootstrap of five values claims too much. It takes rounds for independent and their
//! logarithms for roughly normal; one round that the host disturbed widens the interval and
//! pulls the mean, which is why a verdict asks the median too.

use std::f64::consts::PI;

/// What the rounds say of one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Geometric mean of the ratios.
    pub ratio: f64,
    /// Median of the ratios.
    pub median: f64,
    /// Where the true ratio is with the wanted confidence; one round alone cannot say.
    pub interval: Option<(f64, f64)>,
}

/// Of the logarithms of these ratios, of which there must be one.
#[must_use]
pub fn estimate(logs: &[f64], confidence: f64) -> Estimate {
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let interval = (logs.len() > 1).then(|| {
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        let reach = t_quantile(confidence, logs.len() - 1) * error;
        ((mean - reach).exp(), (mean + reach).exp())
    });
    Estimate {
        ratio: mean.exp(),
        median: median(logs).exp(),
        interval,
    }
}

/// The middle one, or the mean of the two in the middle.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// Student's t with `freedom` degrees stays within this of 0 with the given probability.
fn t_quantile(confidence: f64, freedom: usize) -> f64 {
    // t is the tangent of an angle, so halving the angle finds any t, however large.
    let (mut low, mut high) = (0.0, PI / 2.0);
    for _ in 0..60 {
        let angle = f64::midpoint(low, high);
        if t_within(angle, freedom) < confidence {
            low = angle;
        } else {
            high = angle;
        }
    }
    (freedom as f64).sqrt() * low.tan()
}

/// The probability that |t| stays below sqrt(freedom) * tan(angle): for whole degrees of freedom
/// a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn t_within(angle: f64, freedom: usize) -> f64 {
    let (sin, cos) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    // Terms of cos, cos^3, ... with 2/3, 4/5, ... or of 1, cos^2, ... with 1/2, 3/4, ...
    let mut term = if odd { cos } else { 1.0 };
    let mut sum = 0.0;
    let mut divisor = if odd { 3.0 } else { 2.0 };
    for _ in 0..freedom / 2 {
        sum += term;
        term *= cos * cos * (divisor - 1.0) / divisor;
        divisor += 2.0;
    }
    if odd {
        2.0 / PI * (angle + sin * sum)
    } else {
        sin * sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) {
        let off = (value - expected).abs();
        assert!(off < 6e-4 * expected, "{value} instead of {expected}");
    }

    #[test]
    fn quantiles_of_t_are_those_of_printed_tables() {
        for (freedom, at_95, at_99) in [
            (1, 12.706, 63.657),
            (2, 4.303, 9.925),
            (3, 3.182, 5.841),
            (4, 2.776, 4.604),
            (5, 2.571, 4.032),
            (9, 2.262, 3.250),
            (10, 2.228, 3.169),
            (30, 2.042, 2.750),
            (120, 1.980, 2.617),
        ] {
            near(t_quantile(0.95, freedom), at_95);
            near(t_quantile(0.99, freedom), at_99);
        }
    }

    #[test]
    fn an_estimate_is_the_geometric_mean_with_its_t_interval() {
        // Logarithms -0.1, 0, 0.1, 0.2: mean 0.05, deviation 0.129099, error 0.0645497.
        let found = estimate(&[0.2, -0.1, 0.1, 0.0], 0.95);
        near(found.ratio, 0.05_f64.exp());
        near(found.median, 0.05_f64.exp());
        let (low, high) = found.interval.unwrap_or_default();
        near(low, (0.05_f64 - 3.182_45 * 0.064_549_7).exp());
        near(high, (0.05_f64 + 3.182_45 * 0.064_549_7).exp());
    }

    #[test]
    fn one_round_has_no_interval_and_equal_rounds_have_a_point() {
        let one = estimate(&[2_f64.ln()], 0.95);
        near(one.ratio, 2.0);
        assert_eq!(one.interval, None);
        let (low, high) = estimate(&[0.0; 5], 0.95).interval.unwrap_or_default();
        assert_eq!((low, high), (1.0, 1.0));
    }

    #[test]
    fn the_median_ignores_one_disturbed_round() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 30.0]), 3.0);
    }
}
