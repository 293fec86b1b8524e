import { sha256Bytes } from '../../kernel/hash.ts'

/**
 * A set of texts that stores 16 bytes of each SHA-256 in flat memory: 32 to 64 bytes an entry, without the limit of 16 million
 * entries that a Set has.
 */
export type SeenIds = Readonly<{
  /** False when the text was added before. */
  add(text: string): boolean
}>

const WORDS = 4

export function createSeenIds(): SeenIds {
  let capacity = 1024
  let table = new Uint32Array(capacity * WORDS)
  let count = 0

  const insert = (target: Uint32Array, slots: number, words: Uint32Array, from: number): boolean => {
    let slot = words[from]! % slots
    for (;;) {
      const at = slot * WORDS
      if (isFree(target, at)) {
        for (let word = 0; word < WORDS; word++) target[at + word] = words[from + word]!
        return true
      }
      if (isEqual(target, at, words, from)) return false
      slot = (slot + 1) % slots
    }
  }

  const grow = (): void => {
    const larger = new Uint32Array(capacity * 2 * WORDS)
    for (let at = 0; at < table.length; at += WORDS) {
      if (!isFree(table, at)) insert(larger, capacity * 2, table, at)
    }
    table = larger
    capacity *= 2
  }

  return {
    add(text) {
      const digest = sha256Bytes(text)
      const words = new Uint32Array(WORDS)
      for (let word = 0; word < WORDS; word++) words[word] = digest.readUInt32LE(word * 4)
      const isNew = insert(table, capacity, words, 0)
      if (isNew && ++count * 2 > capacity) grow()
      return isNew
    },
  }
}

/** Sixteen zero bytes mean an empty slot; no digest is ever that. */
const isFree = (table: Uint32Array, at: number): boolean =>
  table[at] === 0 && table[at + 1] === 0 && table[at + 2] === 0 && table[at + 3] === 0

const isEqual = (table: Uint32Array, at: number, words: Uint32Array, from: number): boolean =>
  table[at] === words[from] &&
  table[at + 1] === words[from + 1] &&
  table[at + 2] === words[from + 2] &&
  table[at + 3] === words[from + 3]
