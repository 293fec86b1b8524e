import coerce from 'semver/functions/coerce.js'
import compareBuild from 'semver/functions/compare-build.js'
import inc from 'semver/functions/inc.js'
import prerelease from 'semver/functions/prerelease.js'
import rsort from 'semver/functions/rsort.js'
import valid from 'semver/functions/valid.js'

/** The highest release; what leads to a release counts only where there is none. */
export function latestOf(versions: readonly string[]): string | undefined {
  const sorted = rsort([...versions])
  return sorted.find((version) => prerelease(version) === null) ?? sorted[0]
}

export const newestFirst = (versions: readonly string[]): string[] => [...versions].sort((a, b) => compareBuild(b, a))

/** The usual answer to a conflict. */
export const nextVersion = (version: string): string => inc(version, 'patch') ?? version

/** The version that a caller named among those there are; it may be spelled loosely. */
export function findVersion(input: string, versions: readonly string[]): string | undefined {
  if (versions.includes(input)) return input
  const exact = valid(input, { loose: true })
  return exact === null ? undefined : versions.find((version) => version === exact)
}

/** A version as it is compared, if it is one. */
export const exactVersion = (input: string): string | undefined => valid(input) ?? undefined

/** The whole version that `v1.2`, `1` and `1.0` clearly mean. */
export const wholeVersion = (input: string): string | undefined =>
  /^v?\d{1,9}(?:\.\d{1,9}){0,2}$/.test(input) ? coerce(input)?.version : undefined
