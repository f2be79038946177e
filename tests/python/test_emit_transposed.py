"""The transposition of raw boxes in a file: loops and questions that the kernel's numbers decide."""

from transfuse.emit.chunks import Chunk
from transfuse.emit.transposed import transposed

TRANSPOSE = """DEVICE void transpose(const unsigned char* raw, unsigned char* stage, int piece, int t) {
    const float* in = (const float*)raw;
    stage += piece * PLANE * 16;
#pragma unroll 1
    for (int first = piece * LANES; first < (piece + 1) * LANES; first += %s, in += LANES * WORDS, stage += PLANE * 16)
        UNROLL for (int turn = 0; turn < TURNS; turn += 8) {
            UNROLL for (int f = 0; f < 8; f++) {
                const int p = min((turn + f) * TRANSPOSERS + t, WORDS - 1);
                UNROLL for (int j = 0; j < LANES; j++) word[f][j] = in[j * WORDS + p];
            }
            UNROLL for (int f = 0; f < 8; f++) {
                const int p = (turn + f) * TRANSPOSERS + t, to = p;
                if (p >= WORDS) continue;
                *(uint4*)(stage + to * 16) = rounded(word[f]);
            }
        }
}
"""


def said(words: int, step: str = "LANES") -> str:
    numbers = f"constexpr int WORDS = {words}, TRANSPOSERS = 96, LANES = 4, PLANE = 1448, HALF = 2;"
    source = [Chunk(numbers, {"WORDS"}), Chunk(TRANSPOSE % step, {"transpose"}, function=True)]
    return transposed(source)[1].text


def test_one_part_has_no_loop_and_even_turns_no_last_word():
    text = said(960)
    assert "first" not in text and "p >= WORDS" not in text and "min(" not in text
    assert (
        "\n            UNROLL for (int j = 0; j < LANES; j++) word[f][j] = in[j * WORDS + (turn + f) * TRANSPOSERS + t];\n"
        in text
    )
    assert (
        "\n            *(uint4*)(stage + ((turn + f) * TRANSPOSERS + t) * 16) = rounded(word[f]);\n    }\n}\n" in text
    )


def test_odd_turns_ask_and_several_parts_are_a_loop():
    text = said(950)
    assert (
        "first" not in text
        and "if (p >= WORDS) continue;" in text
        and "min((turn + f) * TRANSPOSERS + t, WORDS - 1)" in text
    )
    assert "*(uint4*)(stage + p * 16)" in text
    assert "for (int first = piece * LANES; first < (piece + 1) * LANES; first += HALF," in said(960, "HALF")


def test_what_a_role_has_not_is_not_told_of():
    told = "void product_role() {\n    // Each warpgroup has buffers of its own. The second is behind.\n%s}\n"
    roles = [Chunk(told % line, {"product_role"}, function=True) for line in ("", "    const int first_slot = 0;\n")]
    assert ["buffers" in c.text for c in transposed(roles)] == [False, True]
