import { createRequire } from 'node:module'
import { type Fields, quoted } from './read-fields.ts'

let library: typeof import('semver') | undefined
const semver = (): typeof import('semver') => {
  library ??= createRequire(import.meta.url)('semver') as typeof import('semver')
  return library
}

/** `1.0` and `v1` are read as what they clearly mean. */
export function readVersion(fields: Fields): string {
  if (fields.raw('version') === undefined) {
    fields.warn('version', 'is absent; 1.0.0 is used')
    return '1.0.0'
  }
  const given = fields.text('version', { max: 64 })
  if (given === undefined) return '1.0.0'
  const exact = semver().valid(given)
  if (exact !== null) return exact
  const coerced = /^v?\d+(\.\d+){0,2}$/.test(given.trim()) ? semver().coerce(given)?.version : undefined
  if (coerced === undefined)
    fields.error('version', `${quoted(given)} is not a semantic version; write one such as 1.0.0`)
  else fields.warn('version', `is read as ${coerced}; write that`)
  return coerced ?? '1.0.0'
}

export const compareVersions = (left: string, right: string): number => semver().compareBuild(left, right)

/** The next patch of a version: the usual answer to a conflict. */
export const nextVersion = (version: string): string => semver().inc(version, 'patch') ?? version

/** The newest one; a release goes before what leads to one. */
export function latestOf<T extends Readonly<{ version: string }>>(versions: readonly T[]): T | undefined {
  const sorted = [...versions].sort((left, right) => compareVersions(right.version, left.version))
  return sorted.find(({ version }) => (semver().prerelease(version) ?? []).length === 0) ?? sorted[0]
}

/** The version that a caller named, which may be spelled loosely. */
export function sameVersion(given: string, version: string): boolean {
  return given === version || semver().valid(given) === version
}
