import { appendFile, mkdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'

/**
 * The output of MCP servers, one file for each deployment and the previous one. Lines are written in order and soon; a crash may
 * lose the last ones. Control characters are removed, so that a server's output cannot manipulate a terminal.
 */
export function createServerLog({
  directory,
  clock,
  logger,
}: Readonly<{ directory: string; clock: Clock; logger: Logger }>) {
  const queues = new Map<string, { lines: string[]; writing: Promise<void> }>()

  const fileOf = (tenant: TenantId, deploymentId: string): string =>
    join(directory, encodeURIComponent(tenant), `${encodeURIComponent(deploymentId)}.log`)

  async function flush(file: string, queue: { lines: string[] }): Promise<void> {
    while (queue.lines.length > 0) {
      const text = queue.lines.splice(0).join('')
      try {
        await mkdir(join(file, '..'), { recursive: true, mode: 0o700 })
        const { size } = await stat(file).catch(() => ({ size: 0 }))
        if (size + text.length > limits.mcpLogBytesMax && size > 0) await rename(file, `${file}.1`)
        await appendFile(file, text.slice(-limits.mcpLogBytesMax), { mode: 0o600 })
      } catch (error) {
        logger.warn('log of an MCP server could not be written', { cause: String(error) })
        queue.lines.length = 0
      }
    }
  }

  return {
    append(tenant: TenantId, deploymentId: string, line: string): void {
      const file = fileOf(tenant, deploymentId)
      const queue = queues.get(file) ?? { lines: [], writing: Promise.resolve() }
      queues.set(file, queue)
      if (queue.lines.length >= limits.mcpLogLinesMax) return
      const plain = line
        .replaceAll(/\p{Cc}/gu, ' ')
        .slice(0, limits.mcpLogLineCharsMax)
        .toWellFormed()
      const isFirst = queue.lines.push(`${isoTime(clock.nowMs())} ${plain}\n`) === 1
      if (isFirst) queue.writing = queue.writing.then(() => flush(file, queue))
    },
    async read(tenant: TenantId, deploymentId: string, lines: number): Promise<readonly string[]> {
      const file = fileOf(tenant, deploymentId)
      await queues.get(file)?.writing
      const texts = await Promise.all([`${file}.1`, file].map((path) => readFile(path, 'utf8').catch(() => '')))
      return texts.join('').split('\n').slice(0, -1).slice(-lines)
    },
    async remove(tenant: TenantId, deploymentId: string): Promise<void> {
      const file = fileOf(tenant, deploymentId)
      await queues.get(file)?.writing
      queues.delete(file)
      await Promise.all([file, `${file}.1`].map((path) => rm(path, { force: true })))
    },
    async close(): Promise<void> {
      await Promise.all([...queues.values()].map(({ writing }) => writing))
    },
  }
}
