"""Reads Thrift's compact protocol, in which Parquet's footer and page headers are written.

Source: the protocol's specification, thrift-compact-protocol.md of Apache Thrift. What is read may
come from anywhere: every length is held against the bytes that there are, and nesting is limited.
"""

from typing import Any

MOST_DEPTH = 16
"""Structures within structures; Parquet's own go no deeper than 6."""
MOST_VALUES = 1 << 21
"""Fields and items of a structure and all within it: some 150 for a row group of a trace. In memory
one takes up to 140 bytes, and in a file 2."""
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(
    13
)
_NUMBERS = (_I16, _I32, _I64)

Struct = dict[int, Any]
"""The fields of a structure by their numbers."""


class Malformed(Exception):
    """Bytes that are not what they should be."""


class Reader:
    """Reads values one after the other from ``data``, from ``position`` on."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        """Read nothing yet."""
        self.data = data
        self.position = position
        self._left = MOST_VALUES

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes.

        Raises:
            Malformed: There are fewer.
        """
        end = self.position + count
        if end > len(self.data):
            raise Malformed("the bytes end too early")
        found = self.data[self.position : end]
        self.position = end
        return found

    def byte(self) -> int:
        """The next byte.

        Raises:
            Malformed: There is none.
        """
        try:
            found = self.data[self.position]
        except IndexError:
            raise Malformed("the bytes end too early") from None
        self.position += 1
        return found

    def varint(self) -> int:
        """An unsigned number of at most 64 bits, in LEB128.

        Raises:
            Malformed: It is longer, or the bytes end.
        """
        data, position = self.data, self.position
        try:
            found = data[position]
            position += 1
            if found >= 0x80:
                found &= 0x7F
                for shift in range(7, 70, 7):
                    byte = data[position]
                    position += 1
                    found |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                else:
                    raise Malformed("a number is longer than 64 bits")
        except IndexError:
            raise Malformed("the bytes end too early") from None
        if found >= 1 << 64:
            raise Malformed("a number is longer than 64 bits")
        self.position = position
        return found

    def zigzag(self) -> int:
        """A signed number of at most 64 bits.

        Raises:
            Malformed: As `varint`.
        """
        found = self.varint()
        return (found >> 1) ^ -(found & 1)

    def struct(self, depth: int = 0) -> Struct:
        """A structure.

        Raises:
            Malformed: It is cut off, nested too deeply, too large, or has a field of no known type.
        """
        if depth == 0:
            self._left = MOST_VALUES
        fields: Struct = {}
        number = 0
        while True:
            head = self.byte()
            kind = head & 0x0F
            if kind == _STOP:
                return fields
            self._left -= 1
            if self._left < 0:
                raise Malformed("a structure is too large")
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            if kind in _NUMBERS:
                fields[number] = self.zigzag()
            elif kind in (_TRUE, _FALSE):
                fields[number] = kind == _TRUE
            else:
                fields[number] = self._value(kind, depth + 1)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _NUMBERS:
            return self.zigzag()
        if kind == _BINARY:
            return self.take(self.varint())
        if depth > MOST_DEPTH:
            raise Malformed("structures are nested too deeply")
        if kind == _STRUCT:
            return self.struct(depth)
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _DOUBLE:
            return self.take(8)
        if kind == _BYTE:
            return self.byte()
        if kind == _MAP:
            return self._map(depth)
        raise Malformed(f"there is no type {kind}")

    def _count(self, more: int) -> None:
        self._left -= more
        if self._left < 0:
            raise Malformed("a structure is too large")

    def _list(self, depth: int) -> list[Any]:
        head = self.byte()
        count, kind = head >> 4, head & 0x0F
        if count == 15:
            count = self.varint()
        if count > len(self.data) - self.position:  # each item takes a byte at least
            raise Malformed("a list is longer than its bytes")
        self._count(count)
        if kind in (_TRUE, _FALSE):
            return [self.byte() == _TRUE for _ in range(count)]
        return [self._value(kind, depth + 1) for _ in range(count)]

    def _map(self, depth: int) -> list[tuple[Any, Any]]:
        count = self.varint()
        if count == 0:
            return []
        if count > len(self.data) - self.position:
            raise Malformed("a map is longer than its bytes")
        self._count(count)
        kinds = self.byte()
        return [
            (self._value(kinds >> 4, depth + 1), self._value(kinds & 0x0F, depth + 1))
            for _ in range(count)
        ]
