//! Whom the door trusts.

use std::fs;

use trident_acl_agent::omaha::{
    Arch, CheckAnswer, Client, Error, HashSource, MachineId, Retry, Settings,
};

use crate::harness::{AMPLE, check, no_update, ok, told, write};

lab_test!(broken_certificates_in_a_bundle_do_not_spoil_the_good_ones, async |lab| {
    let section =
        |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
    let broken = [section("!!!!"), section("aGVsbG8="), section("")].concat();
    let broken = format!("{broken}-----BEGIN CERTIFICATE-----\naGVsbG8=\n");
    lab.trust(&format!("garbage\n{broken}{}{broken}", lab.certificate));
    let answer = check(lab.say([ok(&no_update())])).await;
    assert_eq!(answer.expect("an answer"), CheckAnswer::NoUpdate);
});

lab_test!(
    a_certificate_directory_is_honoured,
    [("SSL_CERT_FILE", "DIRECTORY/missing.pem"), ("SSL_CERT_DIR", "DIRECTORY/more")],
    async |lab| {
        let directory = lab.directory.join("more");
        fs::create_dir(&directory).expect("a directory");
        write(&directory.join("broken.pem"), b"garbage");
        write(&directory.join("ours.pem"), lab.certificate.as_bytes());
        let answer = check(lab.say([ok(&no_update())])).await;
        assert_eq!(answer.expect("an answer"), CheckAnswer::NoUpdate);
    }
);

lab_test!(an_untrusted_server_is_not_asked, async |lab| {
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
    lab.trust(&other.expect("a certificate").cert.pem());
    let error = check(&lab).await.expect_err("not trusted");
    assert!(matches!(error, Error::Http { .. }), "{error:?}");
    assert!(told(&error).contains("certificate"), "{}", told(&error));
    assert_eq!(error.retry(), Retry::Later { after: None });
    assert!(lab.seen().is_empty());
});

lab_test!(
    without_any_certificate_there_is_no_client,
    [("SSL_CERT_FILE", "DIRECTORY/missing.pem")],
    async |lab| {
        let error = Client::new(lab.settings()).expect_err("no trust");
        assert!(matches!(error, Error::NoTrust), "{error:?}");
    }
);

lab_test!(without_cryptography_there_is_no_client, async |_lab| {
    let settings = Settings {
        machine_id: MachineId::derive(&[1; 16]),
        arch: Arch::Amd64,
        updater: "agent".into(),
        hash_source: HashSource::Labels,
        deadline: AMPLE,
        cookies: None,
    };
    assert!(matches!(Client::new(settings), Err(Error::NoTls)));
});
