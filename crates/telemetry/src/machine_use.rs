//! What the program and its machine use of processors.
//!
//! Owns [`MachineUse`]: gauges under KumoMTA's names. In: shares as somebody measures them. Out: percents, once as a sum over all cores (two
//! busy cores are 200) and once of all that there is.

use crate::registry::Registry;
use prometheus::{Error, Gauge};

/// The gauges.
pub struct MachineUse {
    process: [Gauge; 2],
    system: [Gauge; 2],
}

impl MachineUse {
    pub(crate) fn new(r: &Registry) -> Result<MachineUse, Error> {
        let percent = |name, help| {
            let gauge = Gauge::new(name, help)?;
            r.register(Box::new(gauge.clone()))?;
            Ok::<Gauge, Error>(gauge)
        };
        Ok(MachineUse {
            process: [
                percent("process_cpu_usage_sum", "percent of one core that this process uses")?,
                percent("process_cpu_usage_normalized", "percent of all cores that this process uses")?,
            ],
            system: [
                percent("system_cpu_usage_sum", "percent of one core in use on this machine")?,
                percent("system_cpu_usage_normalized", "percent of all cores in use on this machine")?,
            ],
        })
    }

    /// So many cores were busy of late, on this program's account and altogether, of `cores`.
    pub fn set_busy(&self, process: f64, system: f64, cores: u32) {
        for (gauges, busy) in [(&self.process, process), (&self.system, system)] {
            let [sum, normalized] = gauges;
            sum.set(busy * 100.0);
            normalized.set(busy * 100.0 / f64::from(cores.max(1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_cores_are_percents_of_one_and_of_all() {
        let in_use = MachineUse::new(&Registry::default()).expect("sound");
        in_use.set_busy(0.5, 3.0, 4);
        assert_eq!(in_use.process.each_ref().map(Gauge::get), [50.0, 12.5]);
        assert_eq!(in_use.system.each_ref().map(Gauge::get), [300.0, 75.0]);
    }
}
