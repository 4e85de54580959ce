//! Prints one of burn's configurations at its defaults: `Debug`, and JSON as burn serialises it.
//! Made by `pitb watch`.

use burn::optim::@PATH@;

fn main() {
    let config = @CONFIG@::new();
    let debug = serde_json::to_string(&format!("{config:?}")).expect("text is JSON");
    let fields = serde_json::to_string(&config).expect("a configuration is JSON");
    println!("{{\"debug\": {debug}, \"fields\": {fields}}}");
}
