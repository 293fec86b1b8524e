import type { ListedTool } from '../tools/runtime/tool-host.ts'

/** The server's own description in a handshake. Light on purpose: the early answer imports nothing else of the transport. */
export const SERVER_NAME = 'castellan'
export const MODERN_REVISION = '2026-07-28'

export const serverInstructions =
  'search_tools finds any tool by what it does and says how to call it; run_tool calls it, whether or not it is listed here. ' +
  'A failed call answers with a code, a message and what to do next.'

export const toolCapabilities = {
  tools: { listChanged: true },
  extensions: { 'io.modelcontextprotocol/tasks': {} },
}

export const skillCapabilities = {
  resources: { listChanged: true },
  extensions: { ...toolCapabilities.extensions, 'io.modelcontextprotocol/skills': { directoryRead: true } },
}

/** Revisions are dates. A connection without an agreed revision uses the stateless one. */
export const hasStructuredContent = (revision: string | undefined): boolean =>
  revision === undefined || revision >= '2025-06-18'

/** A list for a client of this revision; output schemas are only for clients that know them. */
export const listFor = (revision: string | undefined, tools: readonly ListedTool[]): readonly ListedTool[] =>
  hasStructuredContent(revision) ? tools : tools.map(({ outputSchema: _, ...tool }) => tool)
