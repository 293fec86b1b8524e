/**
 * `npm test [-- PATH…]`: everything, or only the test files whose path contains one of the words given.
 * `npm run test:faults`: the same with `--long`, which sets CASTELLAN_LONG=1. Tests that kill the program at random or
 * sweep through failures read it and go through many more rounds than `npm test` has time for.
 *
 * What the tests need beside Node is made sure of first: a missing prerequisite is a failure, never a skipped test.
 * If one or two files of everything fail, they run once more, alone. What passes then is named as unreliable in the last line. In the
 * long run nothing is repeated.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { filesToRunAgain } from '../test/support/files-to-run-again.ts'
import { findPostgresBinaries } from '../test/support/postgres.ts'

const root = join(import.meta.dirname, '..')
const binaries = join(root, 'node_modules', '.bin')

/** What the workspaces are made with, and a browser; each with the package that has it. */
const neededPrograms: Readonly<Record<string, string>> = {
  nft: 'nftables',
  slirp4netns: 'slirp4netns',
  'mkfs.btrfs': 'btrfs-progs',
  newuidmap: 'uidmap',
  ip: 'iproute2',
  debootstrap: 'debootstrap',
  busybox: 'busybox-static',
  pkill: 'procps',
  perl: 'perl',
  jq: 'jq',
  javac: 'default-jdk-headless',
  pip3: 'python3-pip',
  chromium: 'chromium',
}

function requirePackages(): void {
  const missing = Object.entries(neededPrograms)
    .filter(([program]) => !hasProgram(program))
    .map(([, name]) => name)
  if (findPostgresBinaries() === undefined) missing.push('postgresql')
  if (missing.length === 0) return
  const command = `apt-get install -y ${missing.join(' ')}`
  if (process.getuid?.() !== 0) fail(`The tests need programs that are missing. Install them as root with: ${command}`)
  process.stderr.write(`Installing what the tests need: ${missing.join(' ')}\n`)
  if (!apt('install', '-y', ...missing)) {
    apt('update')
    if (!apt('install', '-y', ...missing)) fail(`What the tests need could not be installed. Try: ${command}`)
  }
}

const hasProgram = (name: string): boolean =>
  ['/usr/bin', '/usr/sbin', '/bin', '/sbin', '/usr/local/bin'].some((folder) => existsSync(join(folder, name)))

function apt(...args: string[]): boolean {
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const { status } = spawnSync('apt-get', args, { stdio: ['ignore', 'inherit', 'inherit'], env: environment })
  return status === 0
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}

async function runTests(filters: readonly string[], long: boolean, failedFiles: string): Promise<number> {
  const child = spawn(process.execPath, [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...filters], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      ...process.env,
      PATH: `${binaries}:${process.env['PATH'] ?? ''}`,
      CASTELLAN_FAILED_FILES: failedFiles,
      ...(long ? { CASTELLAN_LONG: '1' } : {}),
    },
  })
  const forward = (signal: NodeJS.Signals): void => void child.kill(signal)
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  for (const signal of signals) process.on(signal, forward)
  const [code] = (await once(child, 'exit')) as [number | null]
  for (const signal of signals) process.off(signal, forward)
  return code ?? 1
}

/** The files of few failures run once more, alone, and those that then pass are named. */
async function runAll(filters: readonly string[], long: boolean): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'castellan-test-'))
  try {
    const failedFiles = join(folder, 'failed.json')
    const code = await runTests(filters, long, failedFiles)
    const failed = existsSync(failedFiles) ? (JSON.parse(readFileSync(failedFiles, 'utf8')) as string[]) : undefined
    const repeated = filesToRunAgain({ code, filters, isLong: long, failed })
    if (repeated.length === 0) return code
    const names = repeated.map((path) => relative(root, path)).join(', ')
    process.stderr.write(`\nFailed in the run of everything, and run once more: ${names}\n`)
    const again = await runTests(repeated, long, join(folder, 'again.json'))
    if (again === 0) process.stderr.write(`UNRELIABLE: failed once and passed alone. Mend the cause: ${names}\n`)
    return again
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const input = process.argv.slice(2)
requirePackages()
process.exitCode = await runAll(
  input.filter((argument) => argument !== '--long'),
  input.includes('--long'),
)
