import coerce from 'semver/functions/coerce.js'
import compareBuild from 'semver/functions/compare-build.js'
import inc from 'semver/functions/inc.js'
import prerelease from 'semver/functions/prerelease.js'
import rsort from 'semver/functions/rsort.js'
import valid from 'semver/functions/valid.js'

/** The highest release; a pre-release counts only if there is no release. */
export function latestOf(versions: readonly string[]): string | undefined {
  const sorted = rsort([...versions])
  return sorted.find((version) => prerelease(version) === null) ?? sorted[0]
}

export const newestFirst = (versions: readonly string[]): string[] => [...versions].sort((a, b) => compareBuild(b, a))

/** The suggestion after a version conflict. */
export const nextVersion = (version: string): string => inc(version, 'patch') ?? version

/** The listed version that a caller means, which may be spelled loosely. */
export function findVersion(input: string, versions: readonly string[]): string | undefined {
  if (versions.includes(input)) return input
  const exact = valid(input, { loose: true })
  return exact === null ? undefined : versions.find((version) => version === exact)
}

/** The canonical form of a version; undefined if it is not one. */
export const exactVersion = (input: string): string | undefined => valid(input) ?? undefined

/** The complete version that `v1.2`, `1` or `1.0` means. */
export const wholeVersion = (input: string): string | undefined =>
  /^v?\d{1,9}(?:\.\d{1,9}){0,2}$/.test(input) ? coerce(input)?.version : undefined
