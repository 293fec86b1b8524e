import { execFileSync } from 'node:child_process'
import { writeSync } from 'node:fs'
import { openUserNamespace, SYSTEM_PATH } from '../../src/supervisor/user-namespace.ts'

/**
 * Opens a user namespace and runs the shell script given as the argument in it, in the working directory. Prints what the
 * namespace is and what the script said. With `stay` as a second argument it then waits to be killed.
 */
const [script, stay] = process.argv.slice(2)
const namespace = await openUserNamespace()
const [program, ...args] = [...namespace.enterArgv(), 'sh', '-c', script!]
let output: string
try {
  output = execFileSync(program!, args, {
    encoding: 'utf8',
    env: { PATH: SYSTEM_PATH },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
} catch (error) {
  output = `failed: ${(error as { stderr: string }).stderr}`
}
const { pid, idCount, limitation, owner } = namespace
writeSync(1, `${JSON.stringify({ pid, idCount, limitation: limitation ?? null, owner, output })}\n`)
if (stay === 'stay') setInterval(() => {}, 60_000)
else await namespace.close()
