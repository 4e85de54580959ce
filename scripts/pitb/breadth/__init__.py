"""Every optimizer, option, clip and problem: what is trained, compared, broken and found."""
