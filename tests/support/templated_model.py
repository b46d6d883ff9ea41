"""A GGUF file with a chat template that it had not."""
import struct


def with_template(content, template):
    """The bytes of the file with one more entry of the metadata, in front: as long as a multiple of the alignment, so that the tensors
    stay aligned."""
    key = b"tokenizer.chat_template"
    template = template.encode()
    size = 8 + len(key) + 4 + 8 + len(template)
    template += b"{#" + b" " * (-(size + 4) % 32) + b"#}"
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(template)) + template
    assert len(entry) % 32 == 0
    count = struct.unpack("<Q", content[16:24])[0]
    return content[:16] + struct.pack("<Q", count + 1) + entry + content[24:]
