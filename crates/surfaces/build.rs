//! Takes the files that the explorer and the console send into the binary.
//!
//! The console's are what `make console` left in `console/dist/app`, compressed there; without them the binary says how to
//! build it. Those of Swagger UI come out of the archive in which its crate has them: a member of a ZIP archive is a deflate stream with a CRC-32, and so is a gzip file: what is compressed stays as it is,
//! and a few bytes before and after it make it what browsers take. Nothing is compressed or decompressed here.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED as ARCHIVE;

/// The end of a member's path in the archive, and the file that is made of it.
const FILES: [(&str, &str); 3] = [
    ("/dist/swagger-ui-bundle.js", "swagger-ui-bundle.js.gz"),
    ("/dist/swagger-ui.css", "swagger-ui.css.gz"),
    ("/NOTICE", "NOTICE.gz"),
];

const END_OF_DIRECTORY: u32 = 0x0605_4b50;
const ENTRY: u32 = 0x0201_4b50;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Deflate, no name, no time, made for size, on no system in particular.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255];

struct Member {
    path: String,
    method: u16,
    crc: u32,
    size: u32,
    data: &'static [u8],
}

/// The console as it was built, beside its compressed files.
const CONSOLE: &str = "../../console/dist";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    console(Path::new(&out));
    let members = members();
    for (end, name) in FILES {
        // The distributed files lie in the archive once; the same names elsewhere are longer paths.
        let fits = |member: &&Member| member.path.ends_with(end);
        let member = members
            .iter()
            .filter(fits)
            .min_by_key(|member| member.path.len());
        let member = member.unwrap_or_else(|| panic!("the archive of Swagger UI has no {end}"));
        fs::write(Path::new(&out).join(name), member.as_gzip())
            .expect("the output folder can be written");
    }
}

/// Writes the table of the console's files, which is empty where it was not built.
fn console(out: &Path) {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join(CONSOLE);
    // A path that is missing would make every build run this again; the folder is in the repository.
    if root.exists() {
        println!("cargo::rerun-if-changed={}", root.display());
    }
    let app = root.join("app");
    let mut files = Vec::new();
    list(&app, &mut files);
    files.sort();
    // An array: what a static borrows may not have interior mutability.
    let mut table = format!("static FILES: [Asset; {}] = [\n", files.len());
    for file in files {
        let name = file.strip_prefix(&app).expect("it was found below it");
        let name = name.with_extension("");
        let media_type = match name.extension().and_then(|end| end.to_str()) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("txt") => "text/plain; charset=utf-8",
            Some("json") => "application/json",
            _ => panic!(
                "{}: no media type is known for this file of the console",
                name.display()
            ),
        };
        let (name, file) = (name.display(), file.display());
        writeln!(
            table,
            "Asset::gzip({:?}, {media_type:?}, include_bytes!({:?})),",
            name.to_string(),
            file.to_string()
        )
        .expect("text takes text");
    }
    table.push_str("];\n");
    fs::write(out.join("console_files.rs"), table).expect("the output folder can be written");
}

/// The compressed files below a folder.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => list(&path, files),
            false if path.extension().is_some_and(|end| end == "gz") => files.push(path),
            false => {}
        }
    }
}

fn u16_at(at: usize) -> u16 {
    u16::from_le_bytes(ARCHIVE[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(at: usize) -> u32 {
    u32::from_le_bytes(ARCHIVE[at..at + 4].try_into().expect("four bytes"))
}

/// The members, as the directory at the end of the archive has them.
fn members() -> Vec<Member> {
    let end = (0..=ARCHIVE.len() - 22)
        .rev()
        .find(|at| u32_at(*at) == END_OF_DIRECTORY);
    let end = end.expect("a ZIP archive has a directory");
    let mut at = u32_at(end + 16) as usize;
    let mut all = Vec::new();
    for _ in 0..u16_at(end + 10) {
        assert_eq!(u32_at(at), ENTRY, "an entry of the directory");
        let lens = [u16_at(at + 28), u16_at(at + 30), u16_at(at + 32)].map(usize::from);
        let path = String::from_utf8_lossy(&ARCHIVE[at + 46..at + 46 + lens[0]]).into_owned();
        let local = u32_at(at + 42) as usize;
        let begin = local + 30 + usize::from(u16_at(local + 26)) + usize::from(u16_at(local + 28));
        all.push(Member {
            path,
            method: u16_at(at + 10),
            crc: u32_at(at + 16),
            size: u32_at(at + 24),
            data: &ARCHIVE[begin..begin + u32_at(at + 20) as usize],
        });
        at += 46 + lens.iter().sum::<usize>();
    }
    all
}

impl Member {
    fn as_gzip(&self) -> Vec<u8> {
        let mut out = GZIP_HEAD.to_vec();
        match self.method {
            DEFLATED => out.extend_from_slice(self.data),
            STORED => {
                // One block that is not compressed, and is the last.
                let len = u16::try_from(self.data.len()).expect("small files only are stored");
                out.push(1);
                out.extend_from_slice(&len.to_le_bytes());
                out.extend_from_slice(&(!len).to_le_bytes());
                out.extend_from_slice(self.data);
            }
            method => panic!("{}: compressed by method {method}", self.path),
        }
        out.extend_from_slice(&self.crc.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        out
    }
}
