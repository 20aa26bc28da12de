//! CRC-32 as in zlib, Ethernet and PNG (ISO-HDLC), eight bytes a step.

/// The checksum of these bytes.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0;
    let (eights, rest) = bytes.as_chunks::<8>();
    for eight in eights {
        let both = u64::from_le_bytes(*eight) ^ u64::from(crc);
        crc = both
            .to_le_bytes()
            .iter()
            .zip(TABLES.iter().rev())
            .fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)]);
    }
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

/// `TABLES[n][b]`: what a byte b does to the sum once n more zero bytes have gone by.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u32 = tables[zeros - 1][byte];
            tables[zeros][byte] = before >> 8 ^ tables[0][before as u8 as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// 04C11DB7 with its bits in reverse.
const POLYNOMIAL: u32 = 0xedb8_8320;

#[cfg(test)]
mod tests {
    use super::crc32;

    /// Of python's `zlib.crc32`.
    #[test]
    fn checksums_are_those_of_zlib() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"a"), 0xe8b7_be43);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(crc32(&all), 0x2905_8c73);
        assert_eq!(crc32(&[0; 1000]), 0x060b_1780);
    }
}
