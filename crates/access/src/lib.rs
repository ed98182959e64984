//! Who may do what: KumoMTA's access control lists.
//!
//! Owns [`AuthInfo`] (who somebody is), [`Criteria`] (whom a rule is about), [`AccessControlList`] (rules for a resource), [`AclMap`]
//! (lists by resource), [`built_in`] (the lists that hold where policy says nothing), [`http_resources`] (the resources that a request is about) and
//! [`Disposition`] (what came of looking). In: tables of policy, and TOML. Out: decisions. A table or text that is no rule is
//! refused with its place; nothing that no rule allows is allowed. No I/O, and nobody is asked: who calls has the lists.

mod acl;
mod acl_map;
mod auth_info;
mod built_in;
mod criteria;
mod disposition;
mod resource;

pub use acl::{Access, AccessControlList, Rule};
pub use acl_map::{AclMap, AclMapError};
pub use auth_info::{AuthInfo, Identity};
pub use built_in::{TRUSTED_PEERS, built_in};
pub use criteria::{Criteria, IdentityKind};
pub use disposition::Disposition;
pub use resource::http_resources;
