import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { runCastellanHere } from './castellan-here.ts'

type Options = Readonly<{ environment?: Record<string, string>; input?: string }>
type ErrorText = Readonly<{ error: { code: string; message: string; details: Record<string, unknown> } }>

/** A home of a file of tests, and commands that are given in it; it goes with the last test. */
export function openCliHome() {
  const home = mkdtempSync(join(tmpdir(), 'castellan-cli-'))
  const dataDir = join(home, 'state')
  afterAll(() => rmSync(home, { recursive: true, force: true }))
  const plain = (args: readonly string[], options: Options = {}) => runCastellanHere(args, { home, ...options })
  const onState = (args: readonly string[], options?: Options) => plain([...args, '--data-dir', dataDir], options)
  return {
    home,
    dataDir,
    plain,
    onState,
    call: (...args: string[]) => onState(['call', ...args, '--json']),
    write(name: string, text: string): string {
      const path = join(home, name)
      writeFileSync(path, text)
      return path
    },
  }
}

/** What a command that was asked for JSON says is wrong. */
export const errorOf = ({ stderr }: { stderr: string }): ErrorText['error'] => (JSON.parse(stderr) as ErrorText).error
