/**
 * Everything that can be said about the source without running the program: `node scripts/check.ts`.
 * Runs every check though one fails, one line each, then what the failed ones said; exits with 1 if any failed.
 */
import { spawn } from 'node:child_process'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

type Check = Readonly<{ name: string; command: string; args: readonly string[] }>
type Outcome = Readonly<{ check: Check; passed: boolean; output: string; seconds: string }>

const checks: readonly Check[] = [
  { name: 'format and lint', command: 'biome', args: ['check', '--error-on-warnings'] },
  { name: 'types', command: 'tsc', args: ['--project', '.'] },
  { name: 'house rules', command: 'vitest', args: ['run', 'test/repo', 'src/tools/catalog.test.ts'] },
  { name: 'nothing unused', command: 'knip', args: ['--no-progress'] },
]

const root = fileURLToPath(new URL('..', import.meta.url))
const binaries = join(root, 'node_modules', '.bin')

function run(check: Check): Promise<Outcome> {
  const startedMs = performance.now()
  const child = spawn(join(binaries, check.command), check.args, {
    cwd: root,
    env: { ...process.env, PATH: `${binaries}${delimiter}${process.env['PATH'] ?? ''}`, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text))
  return new Promise((resolve) => {
    const settle = (passed: boolean): void =>
      resolve({ check, passed, output, seconds: ((performance.now() - startedMs) / 1000).toFixed(1) })
    child.on('error', (error) => {
      output += `${error.message}\n`
      settle(false)
    })
    child.on('close', (code) => settle(code === 0))
  })
}

const failed: Outcome[] = []
for (const check of checks) {
  const outcome = await run(check)
  console.log(`${outcome.passed ? 'ok    ' : 'FAILED'} ${check.name} (${outcome.seconds} s)`)
  if (!outcome.passed) failed.push(outcome)
}
for (const { check, output } of failed)
  console.log(`\n${check.name}: ${[check.command, ...check.args].join(' ')}\n${output}`)
process.exitCode = failed.length === 0 ? 0 : 1
