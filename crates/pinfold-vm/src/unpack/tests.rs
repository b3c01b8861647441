use std::io::Write as _;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

const TEXT: &[u8] = b"hello kernel\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lz4(blocks: &[&[u8]]) -> Vec<u8> {
    let mut packed = LZ4_LEGACY.to_vec();
    for block in blocks {
        let block = lz4_flex::block::compress(block);
        packed.extend_from_slice(&(block.len() as u32).to_le_bytes());
        packed.extend_from_slice(&block);
    }
    packed
}

/// `printf 'hello kernel\n' | xz -9 --check=crc32`
const XZ_TEXT: &[u8] = &[
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x00, 0x21, 0x01,
    0x1c, 0x00, 0x00, 0x00, 0x10, 0xcf, 0x58, 0xcc, 0x01, 0x00, 0x0c, 0x68, 0x65, 0x6c, 0x6c, 0x6f,
    0x20, 0x6b, 0x65, 0x72, 0x6e, 0x65, 0x6c, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x9c, 0xe9, 0x2e, 0xee,
    0x00, 0x01, 0x21, 0x0d, 0x75, 0xdc, 0xa8, 0xd2, 0x90, 0x42, 0x99, 0x0d, 0x01, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x59, 0x5a,
];

fn packed() -> Vec<(&'static str, Vec<u8>)> {
    let zstd = compress_to_vec(TEXT, CompressionLevel::Fastest);
    let halves: &[&[u8]] = &[&TEXT[..5], &TEXT[5..]];
    vec![("gzip", gzip(TEXT)), ("xz", XZ_TEXT.to_vec()), ("zstd", zstd), ("LZ4", lz4(halves))]
}

#[test]
fn each_compression_is_recognised_by_its_first_bytes() {
    for (name, packed) in packed() {
        assert_eq!(unpack(packed, 100).unwrap(), TEXT, "{name}");
    }
    assert_eq!(unpack(TEXT.to_vec(), 100).unwrap(), TEXT);
}

#[test]
fn what_unpacks_to_more_than_the_limit_is_refused() {
    let limit = TEXT.len() as u64;
    for (name, packed) in packed().into_iter().chain([("none", TEXT.to_vec())]) {
        assert_eq!(unpack(packed.clone(), limit).unwrap(), TEXT, "{name}");
        assert!(matches!(unpack(packed, limit - 1), Err(UnpackError::TooLarge(_))), "{name}");
    }
    // A gigabyte in a megabyte.
    let bomb = gzip(&vec![0; 64 << 20]);
    assert!(matches!(unpack(bomb, 1 << 20), Err(UnpackError::TooLarge(_))));
}

#[test]
fn damaged_bytes_are_refused_wherever_they_are_cut() {
    for (name, packed) in packed() {
        // Without its last bytes, zstd lacks a checksum that this encoder does not write.
        for length in 7..packed.len() - 4 {
            match unpack(packed[..length].to_vec(), 100) {
                Ok(unpacked) => assert_ne!(unpacked, TEXT, "{name} cut at {length}"),
                Err(UnpackError::Invalid { format, .. }) => assert_eq!(format, name),
                Err(error) => panic!("{name} cut at {length}: {error}"),
            }
        }
    }
}

#[test]
fn xz_that_asks_for_much_memory_is_refused() {
    // The dictionary's size is one byte of the block header (xz-file-format.txt, 5.3.1), of which the checksum
    // follows.
    let mut packed = XZ_TEXT.to_vec();
    let header = 12..24;
    let properties = header.start + 4;
    packed[properties] = 40;
    let sum = crc32(&packed[header.start..header.end - 4]);
    packed[header.end - 4..header.end].copy_from_slice(&sum.to_le_bytes());
    let error = unpack(packed, 100).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
}

/// CRC-32 of IEEE 802.3, as gzip writes it after the data.
fn crc32(bytes: &[u8]) -> u32 {
    let packed = gzip(bytes);
    packed[packed.len() - 8..].first_chunk().map(|sum| u32::from_le_bytes(*sum)).unwrap()
}

#[test]
fn old_compressions_are_named() {
    let refused = |bytes: &[u8]| unpack(bytes.to_vec(), 100).unwrap_err().to_string();
    assert_eq!(refused(b"BZh91AY"), "packed with bzip2, which is not supported");
    assert_eq!(refused(b"\x89LZO\0"), "packed with LZO, which is not supported");
}
