use trident_lab::{kube::Verb, lab::{SOON, Setup}, node::Release};
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let agent = std::env::var("LAB_AGENT")?;
    for release in Release::ALL {
        let lab = Setup::new(release, &agent).boot().await?;
        lab.kube.wait_for_requests(SOON, |requests| requests.iter().any(|request| request.verb == Verb::Watch)).await?;
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        println!("{release:?} {:?}", lab.node.memory("trident-acl-agent.service").await?);
        let out = lab.node.run(&["sh","-c","cat /proc/$(systemctl show -p MainPID --value trident-acl-agent)/smaps"]).await?;
        let mut name = String::new();
        let mut sums = std::collections::BTreeMap::<String,u64>::new();
        for line in out.stdout.lines() {
            let mut w = line.split_whitespace();
            let first = w.next().unwrap_or("");
            if first.contains('-') && !first.ends_with(':') { let perms=w.next().unwrap_or("").to_owned(); name = format!("{} {}", line.split_whitespace().nth(5).unwrap_or("anon"), perms); }
            if first == "Rss:" { *sums.entry(name.clone()).or_default() += w.next().unwrap().parse::<u64>()?; }
        }
        for (k,v) in sums { if v > 40 { println!("  {v} {k}"); } }
    }
    Ok(())
}
