// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists of CPUs in the kernel's notation.

/// A list of CPUs in the kernel's notation: `0-3,8`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuList(pub Vec<usize>);

impl CpuList {
    /// Those of this list that are in `other` too, in this list's order.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        Self(self.0.iter().copied().filter(|cpu| other.0.contains(cpu)).collect())
    }

    /// Those of this list that are not in `other`, in this list's order.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.iter().copied().filter(|cpu| !other.0.contains(cpu)).collect())
    }
}

impl std::str::FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no list of CPUs; write it like 0-3,8");
        let mut cpus = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.parse().map_err(|_| bad())?;
            let last: usize = last.parse().map_err(|_| bad())?;
            // The kernel knows no more than 8192 CPUs on x86.
            if first > last || last >= 8192 {
                return Err(bad());
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

impl std::fmt::Display for CpuList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for &cpu in &self.0 {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let texts: Vec<String> = ranges
            .iter()
            .map(|&(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
            .collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_and_print() {
        for (text, cpus, printed) in
            [("0-3,8", vec![0, 1, 2, 3, 8], "0-3,8"), ("5", vec![5], "5"), ("2,1,0\n", vec![0, 1, 2], "0-2")]
        {
            let list: CpuList = text.parse().expect("valid");
            assert_eq!((list.0.clone(), list.to_string()), (cpus, printed.to_owned()));
        }
        for text in ["", "a", "3-1", "1-", "0-99999999999"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }

    #[test]
    fn lists_intersect_and_subtract() {
        let list = |text: &str| text.parse::<CpuList>().expect("valid");
        assert_eq!(list("0-5").within(&list("4-9,1")), list("1,4-5"));
        assert_eq!(list("0-5").without(&list("4-9,1")), list("0,2-3"));
    }
}
