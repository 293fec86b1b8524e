import type { Call } from '../../contract/call.ts'
import type { TenantId } from '../../contract/principal.ts'
import { canModify } from '../../contract/sharing.ts'
import {
  type AssignmentOutcome,
  bulkAnswer,
  notAssigned,
  type ToolAssignment,
} from '../../contract/tool-assignments.ts'
import type { WriteTx } from '../../contract/tx.ts'
import { createProfileAccess } from '../profiles/access.ts'
import type { Profile, ProfileStore } from '../profiles/ports.ts'
import { modifyPermission, profileView, requireNoKnowledge } from '../profiles/rules.ts'
import type { ProfileFields, ProfileService } from '../profiles/service.ts'
import type { ToolAssignments } from './assignments.ts'
import { mayNotChange } from './rules.ts'

type GatewayFields = ProfileFields &
  Readonly<{ knowledgeBaseIds?: readonly string[] | undefined; connectorIds?: readonly string[] | undefined }>

type GatewayDeps = Readonly<{
  profiles: Pick<ProfileStore, 'deleteProfile'>
  sharing: ProfileService
  assignments: ToolAssignments
  noteChange(tx: WriteTx, tenant: TenantId): Promise<void>
}>

type ToolsForGateways = Readonly<{ assignments: readonly (ToolAssignment & Readonly<{ mcpGatewayId: string }>)[] }>

export type GatewayService = ReturnType<typeof createGatewayService>

/** Gateways: addresses with assigned tools, for those with whom they are shared. */
export function createGatewayService({ profiles, sharing, assignments, noteChange }: GatewayDeps) {
  const access = createProfileAccess({
    profiles,
    sharing,
    noun: { kind: 'mcp_gateway', long: 'MCP gateway', short: 'gateway', listTool: 'list_mcp_gateways' },
  })

  async function viewOf(call: Call, profile: Profile) {
    return {
      ...profileView(profile),
      path: `/mcp/${profile.slug}`,
      teams: await sharing.teamsOf(call.read, profile),
      tools: await assignments.assignedTo(call, profile),
    }
  }

  async function create(call: Call, input: GatewayFields & Readonly<{ name: string }>) {
    requireNoKnowledge(input)
    const profile = await sharing.create(call, 'mcp_gateway', input)
    await noteChange(call.write, profile.tenant)
    return await viewOf(call, profile)
  }

  async function edit(call: Call, input: GatewayFields & Readonly<{ id: string }>) {
    requireNoKnowledge(input)
    const after = await sharing.change(call, await access.require(call, input.id), input)
    await assignments.requireAligned(call, after)
    await sharing.save(call, after)
    await noteChange(call.write, after.tenant)
    return await viewOf(call, after)
  }

  async function remove(call: Call, { id }: Readonly<{ id: string }>) {
    const found = await access.remove(call, id)
    await noteChange(call.write, found.tenant)
    return { id: found.id, deleted: true }
  }

  async function list(call: Call, input: Readonly<{ name?: string | undefined; limit: number; offset: number }>) {
    const { profiles: page, total } = await sharing.list(call.read, call.principal, 'mcp_gateway', input)
    const gateways = []
    for (const profile of page) {
      const { id, name, slug, path, description, scope, toolExposureMode, teams, labels, tools } = await viewOf(
        call,
        profile,
      )
      const row = { id, name, slug, path, description, scope, toolExposureMode, teams, labels }
      gateways.push({ ...row, toolCount: tools.length })
    }
    return { total, gateways }
  }

  async function assignTools(call: Call, input: ToolsForGateways) {
    const found = new Map<string, Profile | AssignmentOutcome>()
    for (const { mcpGatewayId } of input.assignments) {
      if (!found.has(mcpGatewayId)) found.set(mcpGatewayId, await targetOf(call, mcpGatewayId))
    }
    const requested = await assignments.expand(call, input.assignments, ({ mcpGatewayId }) => {
      const target = found.get(mcpGatewayId)!
      return 'sharing' in target ? target : undefined
    })
    const targets = requested.map((input) => ({ input, target: found.get(input.mcpGatewayId)! }))
    const outcomes = await assignments.assign(call, targets.filter(isReachable))
    return bulkAnswer(
      'mcpGatewayId',
      targets.map((one) => ({
        targetId: one.input.mcpGatewayId,
        toolId: one.input.toolId,
        outcome: isReachable(one) ? outcomes.shift()! : (one.target as AssignmentOutcome),
      })),
    )
  }

  async function targetOf(call: Call, idOrName: string): Promise<Profile | AssignmentOutcome> {
    const profile = await sharing.find(call.read, call.principal, 'mcp_gateway', idOrName)
    if (profile === undefined) {
      return notAssigned('not_found', 'gateway_not_found', 'mcpGatewayId: there is no such gateway that you can see')
    }
    return canModify(call.principal, 'mcpGateway', profile.sharing) ? profile : mayNotChange(modifyPermission(profile))
  }

  return {
    create,
    edit,
    remove,
    list,
    assignTools,
    async get(call: Call, input: Readonly<{ id?: string | undefined; name?: string | undefined }>) {
      return await viewOf(call, await access.requireEither(call, input))
    },
    async unassignTools(call: Call, input: Readonly<{ mcpGatewayId: string; toolIds: readonly string[] }>) {
      const gateway = await access.requireModifiable(call, input.mcpGatewayId)
      return { mcpGatewayId: gateway.id, ...(await assignments.unassign(call, gateway, input.toolIds)) }
    },
  }
}

type RequestedAssignment<Target> = Readonly<{
  input: ToolAssignment & Readonly<{ mcpGatewayId: string }>
  target: Target
}>
const isReachable = (one: RequestedAssignment<Profile | AssignmentOutcome>): one is RequestedAssignment<Profile> =>
  'sharing' in one.target
