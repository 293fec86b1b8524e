import { limits } from '../../contract/limits.ts'
import { createSingleFlight } from '../../kernel/single-flight.ts'
import { hashMatches, hashToken } from './token.ts'

/** The stored fields that every kind of key has. */
type StoredKey = Readonly<{ id: string; hash: string; lastUsedAtMs: number | null }>

type KeyKind<Key extends StoredKey, Holder> = Readonly<{
  /** The public prefix; undefined for anything that does not have the form of such a key. */
  prefixOf(token: string): string | undefined
  findByPrefix(prefix: string): Promise<Key | undefined>
  isLive(key: Key, nowMs: number): boolean
  /** The principal of the key; undefined if its owner was removed. */
  holderOf(key: Key): Promise<Holder | undefined>
  /** Called when a key is used, at most once a minute per key. */
  noteUse(key: Key, atMs: number): void
}>

type KeyAuthenticator<Holder> = Readonly<{
  /** Undefined for anything but a valid key of the kind. Answers synchronously if the key was used a moment ago. */
  authenticate(token: string, nowMs: number): Holder | undefined | Promise<Holder | undefined>
  /** For a key that is being revoked or replaced. */
  forget(keyId: string, nowMs: number): void
  /** Clears the cache. */
  forgetAll(): void
}>

/** Authenticates keys. Concurrent requests with one key share one look-up. */
export function createKeyAuthenticator<Key extends StoredKey, Holder>(
  kind: KeyKind<Key, Holder>,
): KeyAuthenticator<Holder> {
  const cache = createKeyCache<Key, Holder>()
  const lookups = createSingleFlight<KnownKey<Key, Holder> | undefined>()
  const notedAtMs = new Map<string, number>()

  const lookUp = async (prefix: string, hash: string, nowMs: number) => {
    const key = await kind.findByPrefix(prefix)
    if (key === undefined || !hashMatches(key.hash, hash) || !kind.isLive(key, nowMs)) return undefined
    const holder = await kind.holderOf(key)
    if (holder === undefined) return undefined
    const known = { key, holder }
    cache.put(hash, known, nowMs)
    return known
  }

  const noteOnceAMinute = (key: Key, nowMs: number): void => {
    const { id, lastUsedAtMs } = key
    const latestMs = Math.max(lastUsedAtMs ?? Number.NEGATIVE_INFINITY, notedAtMs.get(id) ?? Number.NEGATIVE_INFINITY)
    if (nowMs - latestMs < limits.apiKeyTouchMs) return
    notedAtMs.delete(id)
    if (notedAtMs.size >= limits.apiKeyCacheMax) notedAtMs.delete(notedAtMs.keys().next().value!)
    notedAtMs.set(id, nowMs)
    kind.noteUse(key, nowMs)
  }

  const live = (known: KnownKey<Key, Holder> | undefined, nowMs: number): Holder | undefined => {
    if (known === undefined || !kind.isLive(known.key, nowMs)) return undefined
    noteOnceAMinute(known.key, nowMs)
    return known.holder
  }

  return {
    authenticate(token, nowMs) {
      const prefix = kind.prefixOf(token)
      if (prefix === undefined) return undefined
      const hash = hashToken(token)
      const known = cache.get(hash, nowMs)
      if (known !== undefined) return live(known, nowMs)
      return lookups.run(hash, () => lookUp(prefix, hash, nowMs)).then((found) => live(found, nowMs))
    },
    forget(keyId, nowMs) {
      cache.forget(keyId, nowMs)
      lookups.forgetAll()
    },
    forgetAll() {
      cache.clear()
      lookups.forgetAll()
    },
  }
}

type KnownKey<Key, Holder> = Readonly<{ key: Key; holder: Holder }>

/**
 * Keys that authenticated a moment ago, so that a busy caller does not cost a look-up per request.
 * 1. Entries are found by the hash of the token; no token is held.
 * 2. An entry is trusted for `limits.apiKeyCacheMs`, which bounds how long a revocation elsewhere goes unnoticed.
 * 3. A key that is being revoked here is not cached for a while: its transaction may still be open, and until it is
 *    committed every look-up would find the key valid.
 */
type KeyCache<Key, Holder> = Readonly<{
  get(hash: string, nowMs: number): KnownKey<Key, Holder> | undefined
  put(hash: string, known: KnownKey<Key, Holder>, nowMs: number): void
  forget(keyId: string, nowMs: number): void
  clear(): void
}>

const UNSETTLED_MS = 10_000

function createKeyCache<Key extends Readonly<{ id: string }>, Holder>(): KeyCache<Key, Holder> {
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
