// The documents of the review tools, as `crates/review` writes them.

export type Status = "created" | "claimed" | "in_discussion" | "approved" | "rejected" | "closed";
export type Role = "proposer" | "reviewer";
export type Decision = "approved" | "rejected";
export type Priority = "critical" | "normal" | "low";

export interface AffectedFile {
  path: string;
  change: "create" | "modify" | "delete" | "rename";
  added: number;
  removed: number;
}

export interface Review {
  review_id: string;
  status: Status;
  version: number;
  intent: string;
  description?: string;
  agent_type: string;
  phase: string;
  plan?: string;
  task?: string;
  project?: string;
  category: string;
  priority: Priority;
  proposed_by: string;
  claimed_by?: string;
  claim_generation: number;
  claim_expires_at?: string;
  parent_id?: string;
  affected_files: AffectedFile[];
  message_count: number;
  patch_count: number;
  created_at: string;
  updated_at: string;
}

export interface Patch {
  patch_id: string;
  review_id: string;
  role: Role;
  description?: string;
  diff: string;
  diff_bytes: number;
  next_offset?: number;
  affected_files: AffectedFile[];
  accepted?: boolean;
  submitted_by: string;
  created_at: string;
}

export interface Verdict {
  verdict_id: string;
  decision: Decision;
  reason?: string;
  given_by: string;
  created_at: string;
}

export interface Link {
  review_id: string;
  status: Status;
  intent: string;
  created_at: string;
}

export interface Proposal extends Review {
  patch: Patch;
  verdicts: Verdict[];
  chain: Link[];
}

export interface Message {
  message_id: string;
  role: Role;
  body: string;
  posted_by: string;
  created_at: string;
}

export interface HistoryEvent {
  seq: number;
  event: string;
  actor: string;
  old_status?: Status;
  new_status?: Status;
  about_id?: string;
  detail?: unknown;
  created_at: string;
}

export interface Page<T> {
  items: T[];
  total: number;
  next_offset?: number;
}

export interface Standing {
  review_id: string;
  status: Status;
  version: number;
}
