import { sha256Hex } from '../kernel/hash.ts'

const NAME_CHARS_MAX = 64

/**
 * Names that every provider accepts, by a table for one request: `fs.create_dir` and `fs.create.dir` must stay distinct, and the
 * model must call exactly what it was shown.
 */
export function safeToolNames(names: readonly string[]) {
  const safe = new Map<string, string>()
  const real = new Map<string, string>()
  for (const name of names) {
    let candidate = name.replaceAll(/[^A-Za-z0-9_-]/g, '_')
    if (candidate.length > NAME_CHARS_MAX || real.has(candidate)) {
      candidate = `${candidate.slice(0, NAME_CHARS_MAX - 9)}_${sha256Hex(name).slice(0, 8)}`
    }
    safe.set(name, candidate)
    real.set(candidate, name)
  }
  return {
    safeOf: (name: string): string =>
      safe.get(name) ?? name.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, NAME_CHARS_MAX),
    /** An unknown name stays as the model wrote it. */
    realOf: (name: string): string => real.get(name) ?? name,
  }
}
