/**
 * `npm test [-- PATH…]`: everything, or only the test files whose path contains one of the words given.
 * `npm run test:faults`: the same with `--long`, which sets CASTELLAN_LONG=1. Tests that kill the program at random or
 * sweep through failures read it and go through many more rounds than `npm test` has time for.
 *
 * What the tests need beside Node is made sure of first: a missing prerequisite is a failure, never a skipped test.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { findPostgresBinaries } from '../test/support/postgres.ts'

const root = join(import.meta.dirname, '..')
const binaries = join(root, 'node_modules', '.bin')

function requirePostgres(): void {
  if (findPostgresBinaries() !== undefined) return
  if (process.getuid?.() !== 0) {
    fail("PostgreSQL's programs are missing. Install them as root with: apt-get install -y postgresql")
  }
  process.stderr.write("Installing PostgreSQL's programs, which the tests of the stores need\n")
  if (!apt('install', '-y', 'postgresql')) {
    apt('update')
    apt('install', '-y', 'postgresql')
  }
  if (findPostgresBinaries() === undefined) {
    fail("PostgreSQL's programs are missing and could not be installed. Try: apt-get install -y postgresql")
  }
}

function apt(...args: string[]): boolean {
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const { status } = spawnSync('apt-get', args, { stdio: ['ignore', 'inherit', 'inherit'], env: environment })
  return status === 0
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}

async function runTests(filters: readonly string[], long: boolean): Promise<number> {
  const child = spawn(process.execPath, [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...filters], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      ...process.env,
      PATH: `${binaries}:${process.env['PATH'] ?? ''}`,
      ...(long ? { CASTELLAN_LONG: '1' } : {}),
    },
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
  const [code] = (await once(child, 'exit')) as [number | null]
  return code ?? 1
}

const given = process.argv.slice(2)
requirePostgres()
process.exitCode = await runTests(
  given.filter((argument) => argument !== '--long'),
  given.includes('--long'),
)
