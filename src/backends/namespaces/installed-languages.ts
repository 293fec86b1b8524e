import { execFile } from 'node:child_process'

/** The search path in the image `host`, which has this machine's /usr. */
const SEARCH_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const probes: Readonly<Record<string, readonly [string, ...string[]]>> = {
  bash: ['bash', '--version'],
  go: ['go', 'version'],
  javascript: ['node', '--version'],
  python: ['python3', '--version'],
  rust: ['rustc', '--version'],
}

let detecting: Promise<Readonly<Record<string, string>>> | undefined

/** The versions of the languages installed on this machine. Determined once for the process: five programs are started for it. */
export function installedLanguages(): Promise<Readonly<Record<string, string>>> {
  detecting ??= detect()
  return detecting
}

async function detect(): Promise<Readonly<Record<string, string>>> {
  const found = await Promise.all(
    Object.entries(probes).map(async ([language, [program, ...args]]) => [language, await versionOf(program, args)]),
  )
  return Object.fromEntries(found.filter(([, version]) => version !== undefined))
}

const versionOf = (program: string, args: readonly string[]): Promise<string | undefined> =>
  new Promise((resolve) => {
    const words = ['-i', `PATH=${SEARCH_PATH}`, program, ...args]
    execFile('/usr/bin/env', words, { timeout: 10_000, maxBuffer: 64 * 1024 }, (error, stdout) =>
      resolve(error === null ? /\d+(?:\.\d+)+/.exec(stdout)?.[0] : undefined),
    )
  })
