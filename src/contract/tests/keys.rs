use crate::contract::{Keys, NotASubdomain};

#[test]
fn three_keys_under_one_prefix() {
    let keys = Keys::new("acl.microsoft.com").unwrap();
    assert_eq!(keys.request, "acl.microsoft.com/update-request");
    assert_eq!(keys.status, "acl.microsoft.com/update-status");
    assert_eq!(keys.commit_status, "acl.microsoft.com/update-commit-status");
}

#[test]
fn a_prefix_is_a_dns_subdomain() {
    let (label, subdomain) = ("a".repeat(63), [&"a".repeat(63); 4].map(String::as_str).join("."));
    for good in ["a", "1.example", "a-b.c-d", &label, &subdomain[..253]] {
        assert!(Keys::new(good).is_ok(), "{good}");
    }
    let long = "a".repeat(64);
    let bad = [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "-a",
        "a-",
        "a.-b",
        "A.example",
        "a_b",
        "a/b",
        "a b",
        "ä.example",
        "a\n",
        &long,
        &subdomain[..254],
    ];
    for bad in bad {
        assert_eq!(Keys::new(bad), Err(NotASubdomain), "{bad:?}");
    }
}
