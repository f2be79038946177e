"""Tables that forget keep what was used last."""

import threading

import pytest

from transfuse.recent import Recent


def test_what_was_used_last_stays():
    table = Recent(8)
    for key in range(100):
        table[key] = 10 * key
        assert table[0] == 0 and table.get(key) == 10 * key  # 0 is met again and again
        assert len(dict(table.items())) <= 8
        assert all(k in table for k in range(max(0, key - 2), key))
    assert 50 not in table and table.get(50, "gone") == "gone"
    with pytest.raises(KeyError):
        table[50]


def test_a_key_has_one_value():
    table = Recent(8)
    for key in range(7):
        table[key] = "old"
    table[1] = "new"
    assert table[1] == table.get(1) == dict(table.items())[1] == "new"
    table.clear()
    assert 1 not in table and 6 not in table and not table.items()


def test_what_is_found_is_never_another_ones():
    """Threads change it as they like: what is lost is only found no more."""
    table, wrong = Recent(16), []

    def work(start):
        for i in range(20000):
            key = (start + i * i) % 40
            table[key] = key
            found = table.get((key * 7) % 40)
            if found is not None and found != (key * 7) % 40:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(dict(table.items())) <= 20
