//! The names that both sides share, from the one list of them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// burn's state names to PyTorch's for the optimizer called `name` by burn. Names that the
/// registry doesn't map stay as they are.
pub fn state_names(name: &str) -> &'static BTreeMap<String, String> {
    static EMPTY: BTreeMap<String, String> = BTreeMap::new();
    REGISTRY.get(name).unwrap_or(&EMPTY)
}

/// The names that both sides share stand in one file, which the Python package reads too.
static REGISTRY: LazyLock<BTreeMap<String, BTreeMap<String, String>>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Registry {
        optimizers: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        burn: String,
        state: BTreeMap<String, String>,
    }
    let text = include_str!("../../../scripts/pitb/optimizers.json");
    let registry: Registry = serde_json::from_str(text).expect("the registry is valid");
    let flip = |state: BTreeMap<String, String>| state.into_iter().map(|(a, b)| (b, a)).collect();
    let entries = registry.optimizers.into_iter();
    entries
        .map(|entry| (entry.burn, flip(entry.state)))
        .collect()
});
