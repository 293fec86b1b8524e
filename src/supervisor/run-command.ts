import { spawn } from 'node:child_process'

type CommandResult = Readonly<{ exitCode: number; stdout: string; stderr: string }>
/** Runs a program on the supervisor's side, without a shell. Never used for a caller's command, which runs in a workspace. */
export type RunCommand = (argv: readonly string[], input?: string) => Promise<CommandResult>

const OUTPUT_CHARS_MAX = 1024 * 1024

export const runCommand: RunCommand = (argv, input) =>
  new Promise((resolve, reject) => {
    const child = spawn(argv[0]!, argv.slice(1), { stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'] })
    let stdout = ''
    let stderr = ''
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      if (stdout.length < OUTPUT_CHARS_MAX) stdout += text
    })
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      if (stderr.length < OUTPUT_CHARS_MAX) stderr += text
    })
    child.on('error', reject)
    child.on('close', (code) => resolve({ exitCode: code ?? 128, stdout, stderr }))
    if (input !== undefined) child.stdin!.on('error', () => {}).end(input)
  })

/** Throws unless the exit code is 0. */
export async function mustRun(run: RunCommand, argv: readonly string[], input?: string): Promise<string> {
  const { exitCode, stdout, stderr } = await run(argv, input)
  if (exitCode !== 0) throw new Error(`${argv[0]} ended with ${exitCode}: ${stderr.trim() || stdout.trim()}`)
  return stdout
}
