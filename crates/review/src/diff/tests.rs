//! Diffs as git and diff write them, and what is wrong with others.

use proptest::prelude::*;

use super::*;

const GIT: &str = "\
diff --git a/src/lib.rs b/src/lib.rs
index 1111111..2222222 100644
--- a/src/lib.rs
+++ b/src/lib.rs
@@ -1,3 +1,4 @@ fn main
 one
-two
+2
+2.5
 three
diff --git a/new.txt b/new.txt
new file mode 100644
index 0000000..3333333
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+--- not a header
\\ No newline at end of file
diff --git a/old.txt b/old.txt
deleted file mode 100644
--- a/old.txt
+++ /dev/null
@@ -1,2 +0,0 @@
-a
-b
diff --git a/x.rs b/y.rs
similarity index 100%
rename from x.rs
rename to y.rs
";

fn files(diff: &str) -> Vec<(String, FileChange, u64, u64)> {
    let files = check(diff).unwrap_or_else(|refused| panic!("{refused}"));
    files
        .into_iter()
        .map(|f| (f.path, f.change, f.added, f.removed))
        .collect()
}

fn refusal(diff: &str) -> Refused {
    check(diff).expect_err(diff)
}

#[test]
fn files_and_counts_are_extracted() {
    assert_eq!(
        files(GIT),
        [
            ("src/lib.rs".into(), FileChange::Modify, 2, 1),
            ("new.txt".into(), FileChange::Create, 1, 0),
            ("old.txt".into(), FileChange::Delete, 0, 2),
            ("y.rs".into(), FileChange::Rename, 0, 0),
        ]
    );
}

#[test]
fn a_plain_diff_with_times_and_a_mail_around_it_pass() {
    let plain =
        "--- lib.c\t2026-01-01 00:00:00\n+++ lib.c\t2026-01-02 00:00:00\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(files(plain)[0].0, "lib.c");
    let mail = format!("From: me\nSubject: [PATCH] x\n\n---\n lib.rs | 2 +-\n\n{GIT}-- \n2.47\n");
    assert_eq!(files(&mail).len(), 4);
}

#[test]
fn modes_binaries_and_quoted_names_pass() {
    let modes = "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n";
    assert_eq!(files(modes)[0].0, "run.sh");
    let binary = "diff --git a/i.png b/i.png\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmZ\n\nliteral 0\nHcmV\n\n\
                  diff --git a/k.png b/k.png\nindex 1..2\nBinary files a/k.png and b/k.png differ\n";
    assert_eq!(files(binary).len(), 2);
    let quoted = "--- \"a/f\\303\\274r.txt\"\n+++ \"b/f\\303\\274r.txt\"\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(files(quoted)[0].0, "für.txt");
}

#[test]
fn c_34_paths_that_leave_the_tree_are_refused() {
    for name in [
        "../x",
        "a/../../x",
        "/etc/passwd",
        "C:\\x",
        "\\x",
        "x\\..\\..\\y",
        "\"a/\\056\\056/x\"",
    ] {
        let diff = format!("--- {name}\n+++ {name}\n@@ -1 +1 @@\n-a\n+b\n");
        assert_eq!(refusal(&diff).kind, "invalid_path", "{name}");
        let renamed =
            format!("diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to {name}\n");
        assert_eq!(refusal(&renamed).kind, "invalid_path", "{name}");
        let mode = format!("diff --git a/{name} b/{name}\nold mode 1\nnew mode 2\n");
        if !name.starts_with('"') {
            assert_eq!(refusal(&mode).kind, "invalid_path", "{name}");
        }
    }
    let absolute = "--- a//etc/passwd\n+++ b//etc/passwd\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(refusal(absolute).kind, "invalid_path");
}

#[test]
fn what_is_no_diff_is_refused_with_its_line() {
    for (diff, line) in [
        ("", "there is no file"),
        ("just words\n", "there is no file"),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+\0\n",
            "it contains NUL",
        ),
        ("@@ -1 +1 @@\n-a\n+b\n", "line 1: a hunk without"),
        ("--- a/x\n+++ b/x\n", "line 1: a file without hunks"),
        (
            "--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n",
            "line 3: the diff ends inside",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n+c\n",
            "line 6: the hunk of line 3 is longer",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n-b\n",
            "line 5: the hunk of line 3 is not as long",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\nwords\n",
            "line 5: the hunk of line 3",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -x +1 @@\n-a\n",
            "line 3: expected `@@",
        ),
        (
            "--- a/x\n+++ b/x\n@@@ -1 -1 +1 @@@\n-a\n",
            "line 3: expected `@@",
        ),
        ("diff --cc x\nindex 1,2..3\n", "line 1: a combined diff"),
        (
            "diff --git a/x b/x\nindex 1..2\n",
            "line 1: a file without any change",
        ),
    ] {
        let refused = refusal(diff);
        assert_eq!(refused.kind, "invalid_diff");
        assert!(
            refused.message.contains(line),
            "{diff:?}: {}",
            refused.message
        );
    }
}

#[test]
fn a_diff_above_the_limit_is_refused() {
    assert_eq!(refusal(&"x".repeat(BYTES_MAX + 1)).kind, "diff_too_large");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(?s).{0,300}") {
        let _ = check(&text);
    }

    #[test]
    fn no_mixture_of_diff_lines_makes_it_panic(
        lines in prop::collection::vec(prop::sample::select(vec![
            "diff --git a/x b/x", "diff --git \"a/x\" \"b/x\"", "--- a/x", "+++ b/x", "+++ /dev/null",
            "@@ -1,2 +1,2 @@", "@@ -0,0 +1 @@", "+a", "-a", " a", "", "\\ No newline", "rename from x",
            "rename to ü", "new file mode 1", "GIT binary patch", "diff --git ü ü", "Binary files differ",
        ]), 0..30),
    ) {
        let _ = check(&lines.join("\n"));
    }
}
