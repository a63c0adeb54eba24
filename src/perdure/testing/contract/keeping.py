"""Small values of the storage itself: the first one of a name stands."""

from __future__ import annotations

from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Place, Together

ANY_BYTES = bytes(range(256))


class KeepContract(Contract):
    """Keeping, and finding what stands."""

    async def test_the_first_value_of_a_name_stands(self, storage: Storage) -> None:
        assert await storage.keep("secret", b"one") == b"one"
        assert await storage.keep("secret", b"two") == b"one"
        assert await storage.keep("Secret", b"two") == b"two"

    async def test_a_kept_value_lasts_through_opening_again(self, storage: Storage, place: Place) -> None:
        await storage.keep("secret", b"one")
        storage = await place.reopen(storage)
        assert await storage.keep("secret", b"two") == b"one"

    async def test_a_kept_value_is_any_bytes(self, storage: Storage, place: Place) -> None:
        values = {"empty": b"", "nul": b"\0", "all": ANY_BYTES, "name with a / and an é": b"\xff\xfe"}
        for name, value in values.items():
            assert await storage.keep(name, value) == value
        storage = await place.reopen(storage)
        assert {name: await storage.keep(name, b"other") for name in values} == values

    async def test_of_many_at_once_all_get_the_same_value(self, storage: Storage, together: Together) -> None:
        answers = await together([storage.keep("secret", bytes([n])) for n in range(16)])
        assert set(answers) == {await storage.keep("secret", b"later")} <= {bytes([n]) for n in range(16)}

    async def test_two_openings_keep_the_same_value(self, storage: Storage, place: Place, together: Together) -> None:
        second = await place.ready()
        answers = await together([(storage, second)[n % 2].keep("secret", bytes([n])) for n in range(16)])
        assert len(set(answers)) == 1

    async def test_values_are_found_by_how_their_names_begin(self, storage: Storage, place: Place) -> None:
        values = {"key.a": b"one", "key.b": ANY_BYTES, "keys": b"other", "Key.a": b"other"}
        for name, value in values.items():
            await storage.keep(name, value)
        storage = await place.reopen(storage)
        assert await storage.kept("key.") == {"key.a": b"one", "key.b": ANY_BYTES}
        assert await storage.kept("nothing") == {}

    async def test_a_discarded_value_is_gone_and_its_name_is_free(self, storage: Storage, place: Place) -> None:
        await storage.keep("key.a", b"one")
        assert await storage.discard("key.a")
        assert not await storage.discard("key.a")
        storage = await place.reopen(storage)
        assert await storage.kept("key.") == {}
        assert await storage.keep("key.a", b"two") == b"two"
