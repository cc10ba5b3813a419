use super::*;

/// A server that gives these pages for every list.
struct Lists(Vec<&'static str>);

impl Peer for Lists {
    async fn request(&self, _: Method, params: Vec<u8>) -> Result<Outcome, PeerError> {
        let asked = String::from_utf8_lossy(&params).into_owned();
        let at = (0..self.0.len()).rfind(|n| asked.contains(&format!("\"cursor\":\"{n}\"")));
        let text = self.0[at.unwrap_or(0)];
        let page = Payload::parse(Bytes::from_static(text.as_bytes()), Rules::backend());
        Ok(Outcome::Result(page.expect("a page")))
    }

    async fn notify(&self, _: Method, _: Vec<u8>) -> Result<(), PeerError> {
        Ok(())
    }
}

async fn keys(kind: ItemKind, pages: &[&'static str]) -> Vec<String> {
    let peer = Lists(pages.to_vec());
    let read = read_list(&peer, Revision::V2025_06_18, kind, "a", &[]).await;
    read.expect("a list")
        .items
        .into_iter()
        .map(|item| item.key)
        .collect()
}

#[tokio::test]
async fn g_45_entries_that_would_spoil_the_merged_list_are_left_out() {
    let tools = keys(
        ItemKind::Tool,
        &[
            r#"{"nextCursor": "1", "tools": [
                {"name": "good", "inputSchema": {"type": "object"}},
                {"name": "bare"},
                {"name": "text", "inputSchema": "x"},
                {"name": "rootless", "inputSchema": {}},
                {"name": "array", "inputSchema": {"type": "array"}},
                {"name": "", "inputSchema": {"type": "object"}},
                {"inputSchema": {"type": "object"}}, 5, null]}"#,
            r#"{"tools": [
                {"name": "good", "description": "again", "inputSchema": {"type": "object"}},
                {"name": "other", "inputSchema": {"$schema": "x", "type": "object"}}]}"#,
        ],
    );
    assert_eq!(tools.await, ["good", "other"]);
    let resources = r#"{"resources": [{"uri": "a://1", "name": "one"}, {"uri": "a://2"},
        {"uri": "a://1", "name": "again"}]}"#;
    assert_eq!(keys(ItemKind::Resource, &[resources]).await, ["a://1"]);
}
