import { constants } from 'node:fs'
import { mkdir, mkdtemp, open, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { WorkspaceFiles } from '../../src/domains/workspaces/backend.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { createOpenatFiles, type OpenatFilesDeps } from '../../src/supervisor/openat-files/index.ts'

const O_PATH = 0o10000000

export const filesBelow = (root: string, more: Partial<OpenatFilesDeps> = {}): WorkspaceFiles =>
  createOpenatFiles({
    openRoot: () => open(root, O_PATH | constants.O_DIRECTORY),
    random: systemRandom,
    ...more,
  })

/** A root to work in and, beside it, a place that must stay as it is. */
export async function makeFileTree() {
  const base = await realpath(await mkdtemp(join(tmpdir(), 'castellan-rooted-')))
  const [root, outside] = [join(base, 'root'), join(base, 'outside')]
  await mkdir(root)
  await mkdir(outside)
  return {
    base,
    root,
    outside,
    files: filesBelow(root),
    async [Symbol.asyncDispose]() {
      await rm(base, { recursive: true, force: true })
    },
  }
}

export async function textOf({ stream }: Readonly<{ stream: Readable }>): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}
