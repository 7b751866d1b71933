//! HTTP/2, which the real servers offer too: several requests on one connection.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use trident_lab::kube::{User, WatchCut};

use super::{Cluster, PATIENCE};

async fn connect(cluster: &Cluster) -> SendRequest<Empty<Bytes>> {
    let roots = cluster.pki.roots();
    let mut tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let address = cluster.url.strip_prefix("https://").unwrap();
    let tcp = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, tcp).await.unwrap();
    let io = TokioIo::new(stream);
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn get(
    sender: &mut SendRequest<Empty<Bytes>>,
    cluster: &Cluster,
    path: &str,
) -> Response<Incoming> {
    let request =
        Request::get(format!("{}{path}", cluster.url)).header("authorization", "Bearer t");
    sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_cut_watch_leaves_its_connection_alone() {
    let cluster = Cluster::new();
    cluster.api.set_token("t", Some(User::admin("raw")));
    let mut sender = connect(&cluster).await;
    let mut watch = get(&mut sender, &cluster, "/api/v1/nodes?watch=true").await;
    assert!(watch.frame().await.unwrap().is_ok());
    assert_eq!(get(&mut sender, &cluster, "/api/v1/nodes/node-1").await.status(), 200);
    cluster.api.cut_watches(WatchCut::Abrupt);
    let end = tokio::time::timeout(PATIENCE, watch.into_body().collect()).await.unwrap();
    assert!(end.is_err());
    assert_eq!(get(&mut sender, &cluster, "/api/v1/nodes/node-2").await.status(), 200);
    assert_eq!(cluster.api.connections().accepted, 1);
}
