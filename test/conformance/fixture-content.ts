import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type ContentBlock,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { ExtensionCall, McpExtension } from '../../src/mcp/mcp-extension.ts'
import type { ListedTool } from '../../src/tools/runtime/tool-host.ts'

/** One tool of the conformance suite, with whatever low-level access it needs. */
export type FixtureTool = Readonly<{
  listed: ListedTool
  run(args: Readonly<Record<string, unknown>>, call: ExtensionCall): Promise<FixtureResult> | FixtureResult
}>
export type FixtureResult = Awaited<ReturnType<McpExtension['callTool']>>

/** A picture of one pixel and a sound of no samples. */
export const pixelPng = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC'
export const silentWav = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA='

export const textBlock = (text: string): ContentBlock => ({ type: 'text', text })
export const textResult = (text: string): CallToolResult => ({ content: [textBlock(text)] })

export function fixtureTool(
  name: string,
  description: string,
  run: FixtureTool['run'],
  properties: Record<string, unknown> = {},
): FixtureTool {
  return {
    run,
    listed: {
      name,
      title: name,
      description,
      inputSchema: { type: 'object', properties, required: Object.keys(properties) },
      annotations: {
        title: name,
        readOnlyHint: true,
        destructiveHint: false,
        idempotentHint: true,
        openWorldHint: false,
      },
    },
  }
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** What the client of a stateless request says it can do. */
export function declaredCapabilities(context: ServerContext): ClientCapabilities | undefined {
  const envelope: Readonly<Record<string, unknown>> | undefined = context.mcpReq.envelope
  return envelope?.[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined
}
