import { ProtocolError, ProtocolErrorCode, type Server } from '@modelcontextprotocol/server'
import {
  RESOURCES_DIRECTORY_READ_METHOD,
  SKILLS_EXTENSION_ID,
  SKILLS_GET_METHOD,
  SKILLS_LIST_METHOD,
} from '@modelcontextprotocol/server/ext/skills'
import { z } from 'zod'
import type { Principal } from '../contract/principal.ts'
import type { ResourceProvider } from './mcp-extension.ts'
import { MODERN_REVISION } from './server-facts.ts'
import { canonicalUri, type SkillCatalog } from './skill-catalog.ts'

/** The methods of the MCP skills extension on the low-level server; the SDK's own attach only to its high-level one. */
const PAGE_SIZE = 100
const pageParams = z.object({ cursor: z.string().optional() })
const uriParams = z.object({ uri: z.string() })
const directoryParams = z.object({ uri: z.string(), cursor: z.string().optional() })

export function installSkills(server: Server, catalog: SkillCatalog, principal: () => Principal): void {
  const cacheFields = () =>
    server.getNegotiatedProtocolVersion() === MODERN_REVISION ? { ttlMs: 0, cacheScope: 'private' as const } : {}

  server.setRequestHandler(SKILLS_LIST_METHOD, { params: pageParams }, async ({ cursor }) => {
    const { skills } = await catalog.snapshot(principal())
    const { items, ...rest } = page(skills, cursor)
    return { skills: items, ...rest, ...cacheFields() }
  })
  server.setRequestHandler(SKILLS_GET_METHOD, { params: uriParams }, async ({ uri }) => {
    const skill = (await catalog.snapshot(principal())).byUri.get(canonicalUri(uri) ?? '')
    if (skill === undefined)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `uri: no skill is served at ${uri}`)
    return { skill, ...cacheFields() }
  })
  server.setRequestHandler(RESOURCES_DIRECTORY_READ_METHOD, { params: directoryParams }, async ({ uri, cursor }) => {
    const children = (await catalog.snapshot(principal())).directories.get(canonicalUri(uri) ?? '')
    if (children === undefined)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `uri: ${uri} is not a directory`)
    const { items, ...rest } = page(children, cursor)
    return { resources: items, ...rest, ...cacheFields() }
  })
}

export function skillResources(catalog: SkillCatalog): ResourceProvider {
  return {
    templates: [{ name: SKILLS_EXTENSION_ID, uriTemplate: 'skill://{+path}' }],
    async list({ principal }) {
      const { skills, files } = await catalog.snapshot(principal)
      return skills.map(({ uri, frontmatter }) => ({
        uri,
        name: frontmatter.name,
        description: frontmatter.description,
        mimeType: 'text/markdown',
        size: files.get(uri)!.size,
      }))
    },
    async read(uri, { principal }) {
      const content = await catalog.read(principal, uri)
      return content === undefined ? undefined : { contents: [content] }
    },
  }
}

/** A page that begins after the item whose URI the cursor names, so that a changed list never repeats an item. */
function page<Item extends { uri: string }>(
  items: readonly Item[],
  cursor: string | undefined,
): { items: Item[]; nextCursor?: string } {
  let start = 0
  if (cursor !== undefined) {
    const after = Buffer.from(cursor, 'base64url').toString()
    if (!after.startsWith('skill://'))
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'cursor: was not issued by this list')
    start = items.findIndex((item) => item.uri > after)
    if (start === -1) start = items.length
  }
  const chosen = items.slice(start, start + PAGE_SIZE)
  return start + PAGE_SIZE < items.length
    ? { items: chosen, nextCursor: Buffer.from(chosen.at(-1)!.uri).toString('base64url') }
    : { items: chosen }
}
