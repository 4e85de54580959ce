//! Tells the crate, at compile time, which burn and which compiler it was built with.

use std::{env, fs, path::Path, process::Command};

fn main() {
    let lock =
        Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock.display());
    println!("cargo:rerun-if-changed=build.rs");
    let text = fs::read_to_string(&lock).expect("the workspace has a Cargo.lock");
    println!(
        "cargo:rustc-env=PITB_BURN_VERSION={}",
        locked(&text, "burn")
    );

    let rustc = env::var("RUSTC").expect("cargo sets it");
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .expect("rustc runs");
    let version = String::from_utf8(version.stdout).expect("rustc prints UTF-8");
    let number = version.split_whitespace().nth(1).unwrap_or("unknown");
    println!("cargo:rustc-env=PITB_RUSTC_VERSION={number}");
    println!(
        "cargo:rustc-env=PITB_TARGET={}",
        env::var("TARGET").expect("cargo sets it")
    );
}

/// The version that Cargo.lock holds for `name`.
fn locked<'a>(text: &'a str, name: &str) -> &'a str {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let text = match text.split_once(&entry) {
        Some((_, rest)) => rest,
        None => panic!("Cargo.lock holds no package named {name}"),
    };
    text.split('"').next().expect("split yields one item")
}
