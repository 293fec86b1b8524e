import { sha256Hex } from '../../kernel/hash.ts'

/**
 * Names for clients that refuse dots or long names. Two tables, built once for the whole catalogue:
 *
 * 1. A safe name has 1–64 characters out of a–z, A–Z, 0–9, `_` and `-`. A name that already is safe stays as it is.
 * 2. No safe name means two tools, and none is the documented name of another tool: building fails instead.
 * 3. The way back is a lookup; characters are never replaced in that direction, because `_` may have been anything.
 * 4. An alias (another documented spelling of one tool) shares the safe name of its tool and leads back to the tool.
 */
export const safeNameLengthMax = 64
const digestCharacters = 8

type SafeNames = Readonly<{
  /** The safe name of a documented name; undefined for a name outside the catalogue. */
  safeNameOf(documentedName: string): string | undefined
  /** The documented name that a safe or documented name stands for; undefined when it stands for none. */
  documentedNameOf(name: string): string | undefined
}>

/** `aliases` maps the other spelling to the documented name; both must be in `documentedNames`. */
export function buildSafeNames(
  documentedNames: Iterable<string>,
  aliases: Readonly<Record<string, string>> = {},
): SafeNames {
  const documented = new Set(documentedNames)
  const safeByDocumented = new Map<string, string>()
  const documentedBySafe = new Map<string, string>()
  for (const [alias, target] of Object.entries(aliases)) {
    if (!documented.has(alias) || !documented.has(target))
      throw new Error(`safe names: alias ${alias} → ${target} names no tool of the catalogue`)
    if (Object.hasOwn(aliases, target)) throw new Error(`safe names: ${alias} → ${target} leads to another alias`)
  }
  for (const name of documented) {
    if (Object.hasOwn(aliases, name)) continue
    const safe = makeSafe(name)
    const holder = documentedBySafe.get(safe) ?? (safe !== name && documented.has(safe) ? safe : undefined)
    if (holder !== undefined) {
      throw new Error(
        `safe names: ${name} and ${holder} would both be ${safe}; rename one, or declare it an alias of the other`,
      )
    }
    safeByDocumented.set(name, safe)
    documentedBySafe.set(safe, name)
  }
  for (const [alias, target] of Object.entries(aliases)) safeByDocumented.set(alias, safeByDocumented.get(target)!)
  return {
    safeNameOf: (documentedName) => safeByDocumented.get(documentedName),
    documentedNameOf: (name) => (documented.has(name) ? name : documentedBySafe.get(name)),
  }
}

function makeSafe(name: string): string {
  const safe = name.replace(/[^a-zA-Z0-9_-]/gu, '_')
  if (safe !== '' && safe.length <= safeNameLengthMax) return safe
  const digest = sha256Hex(name).slice(0, digestCharacters)
  return `${safe.slice(0, safeNameLengthMax - digestCharacters - 1)}_${digest}`
}
