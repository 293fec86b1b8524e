import { chmodSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** In the folder of a run: what its process number counts in. Another container may share the folder above, but not the numbers. */
const NAMESPACE_FILE = '.pid-namespace'

/**
 * All that the tests of one run write below `parent`, in one folder: everybody may enter it and write there. Its name is short, because paths of
 * sockets are. Folders of runs that were killed are removed first.
 */
export function makeRunFolder(parent: string): string {
  const namespace = pidNamespace()
  for (const name of readdirSync(parent)) {
    const folder = join(parent, name)
    if (isDeadRun(folder, name, namespace)) removeRunFolder(folder)
  }
  const folder = join(parent, `castellan-${process.pid}`)
  mkdirSync(folder)
  chmodSync(folder, 0o1777)
  writeFileSync(join(folder, NAMESPACE_FILE), namespace)
  return folder
}

/** What other users made in it can only be removed by root. */
export function removeRunFolder(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true })
  } catch (error) {
    process.stderr.write(`What a run of tests left could not be removed: ${String(error)}\n`)
  }
}

function isDeadRun(folder: string, name: string, namespace: string): boolean {
  const [, number] = /^castellan-(\d+)$/.exec(name) ?? []
  if (number === undefined) return false
  try {
    return readFileSync(join(folder, NAMESPACE_FILE), 'utf8') === namespace && !isAlive(Number(number))
  } catch {
    return false
  }
}

function isAlive(pid: number): boolean {
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function pidNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return 'none'
  }
}
