//! The names that both sides share, from the one list of them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// PyTorch's name of what burn's optimizer `name` calls `state`, for a parameter of so many
/// `dimensions` that burn stores `transposed` or not. What the registry doesn't map stays as it is.
pub fn state_name<'a>(name: &str, state: &'a str, dimensions: usize, transposed: bool) -> &'a str {
    let Some(entry) = REGISTRY.get(name) else {
        return state;
    };
    let shaped = match (dimensions, transposed) {
        (0 | 1, _) => &entry.state_vector,
        (_, true) => &entry.state_transposed,
        (_, false) => &entry.state_matrix,
    };
    let mut all = shaped.iter().chain(&entry.state);
    let found = all.find(|(_, burn)| *burn == state);
    found.map_or(state, |(pytorch, _)| pytorch)
}

/// The names that both sides share stand in one file, which the Python package reads too.
static REGISTRY: LazyLock<BTreeMap<String, Entry>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Registry {
        optimizers: Vec<Entry>,
    }
    let text = include_str!("../../../scripts/pitb/optimizers.json");
    let registry: Registry = serde_json::from_str(text).expect("the registry is valid");
    let entries = registry.optimizers.into_iter();
    entries.map(|entry| (entry.burn.clone(), entry)).collect()
});

/// One optimizer's names of states: PyTorch's to burn's.
#[derive(Deserialize)]
struct Entry {
    burn: String,
    state: BTreeMap<String, String>,
    #[serde(default)]
    state_vector: BTreeMap<String, String>,
    #[serde(default)]
    state_matrix: BTreeMap<String, String>,
    #[serde(default)]
    state_transposed: BTreeMap<String, String>,
}
