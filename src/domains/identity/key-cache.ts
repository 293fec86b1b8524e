import { limits } from '../../contract/limits.ts'

export type KnownKey<Key, Holder> = Readonly<{ key: Key; holder: Holder }>

/**
 * Keys that authenticated a moment ago, so that a busy caller does not cost a look-up per request.
 *
 * 1. Entries are found by the hash of the token; no token is held.
 * 2. An entry is trusted for `limits.apiKeyCacheMs`, which bounds how long a revocation elsewhere goes unseen.
 * 3. A key that is being revoked here is not kept for a while: its transaction may still be open, and until it is
 *    committed every look-up would find the key alive.
 */
type KeyCache<Key, Holder> = Readonly<{
  get(hash: string, nowMs: number): KnownKey<Key, Holder> | undefined
  put(hash: string, known: KnownKey<Key, Holder>, nowMs: number): void
  forget(keyId: string, nowMs: number): void
  clear(): void
}>

const UNSETTLED_MS = 10_000

export function createKeyCache<Key extends Readonly<{ id: string }>, Holder>(): KeyCache<Key, Holder> {
  const entries = new Map<string, { known: KnownKey<Key, Holder>; atMs: number }>()
  const unsettled = new Map<string, number>()

  return {
    get(hash, nowMs) {
      const entry = entries.get(hash)
      if (entry === undefined) return undefined
      const ageMs = nowMs - entry.atMs
      if (ageMs >= 0 && ageMs < limits.apiKeyCacheMs) return entry.known
      entries.delete(hash)
      return undefined
    },
    put(hash, known, nowMs) {
      for (const [keyId, atMs] of unsettled) {
        if (Math.abs(nowMs - atMs) < UNSETTLED_MS) {
          if (keyId === known.key.id) return
        } else unsettled.delete(keyId)
      }
      entries.delete(hash)
      if (entries.size >= limits.apiKeyCacheMax) entries.delete(entries.keys().next().value!)
      entries.set(hash, { known, atMs: nowMs })
    },
    forget(keyId, nowMs) {
      if (unsettled.size >= limits.apiKeyCacheMax) unsettled.delete(unsettled.keys().next().value!)
      unsettled.set(keyId, nowMs)
      for (const [hash, entry] of entries) if (entry.known.key.id === keyId) entries.delete(hash)
    },
    clear: () => entries.clear(),
  }
}
