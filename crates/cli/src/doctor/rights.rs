//! Whether the server's user may do what he must: read his keys and policy, write spool and logs; and nobody else read keys.
//!
//! In: files and folders with owner and mode, from the root down, and a user. Out: findings. Pure; ACLs and security modules are
//! not looked at.

use super::finding::Finding;
use std::path::Path;

/// Who the server runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub name: String,
    pub uid: u32,
    /// All groups.
    pub gids: Vec<u32>,
}

/// What is to be possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// To be read.
    Read,
    /// To be read by nobody else.
    Secret,
    /// A folder to write into.
    Folder,
}

/// Owner and mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
}

/// A file or folder, and what is above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub path: String,
    pub usage: Use,
    /// Folders on the way, with their names, from the root down.
    pub above: Vec<(String, Owned)>,
    /// What it is itself; or why that is not known.
    pub own: Result<Owned, String>,
}

/// Judges one.
pub(super) fn judge(place: &Place, who: &Who) -> Finding {
    let (check, path) = ("rights", &place.path);
    if let Some((folder, _)) = place.above.iter().find(|(_, owned)| !may(*owned, who, ENTER)) {
        return Finding::problem(
            check,
            path,
            format!("{} may not enter {folder}", who.name),
            way_in(folder, place, who),
        );
    }
    let own = match &place.own {
        Ok(own) => own,
        Err(why) => return absent(place, who, why),
    };
    let (wanted, words) = match place.usage {
        Use::Read | Use::Secret => (READ, "read"),
        Use::Folder => (READ | WRITE | ENTER, "write into"),
    };
    if !may(*own, who, wanted) {
        let fix = format!("chown {} {path}", who.name);
        return Finding::problem(check, path, format!("{} may not {words} it", who.name), fix);
    }
    let is_open = place.above.iter().all(|(_, owned)| owned.mode & ENTER == ENTER) && own.mode & READ == READ;
    if place.usage == Use::Secret && is_open {
        let what = format!("everybody on this machine may read it (mode {:o})", own.mode & 0o7777);
        return Finding::problem(
            check,
            path,
            what,
            format!("chmod 600 {path}; if others are not trusted, make a new key"),
        );
    }
    let is_strange = own.gid != 0 && !who.gids.contains(&own.gid);
    let lets_group_in =
        |folder: &Owned| folder.mode & ENTER == ENTER || (folder.gid == own.gid && folder.mode & ENTER << 3 != 0);
    if place.usage == Use::Secret
        && is_strange
        && own.mode & READ << 3 != 0
        && place.above.iter().all(|(_, owned)| lets_group_in(owned))
    {
        let what =
            format!("the group {} may read it, which {} is not in (mode {:o})", own.gid, who.name, own.mode & 0o7777);
        return Finding::warning(check, path, what, format!("chmod 600 {path}"));
    }
    Finding::ok(check, path, format!("{} may {words} it", who.name))
}

/// What helps him who may not enter a folder. Those of people are theirs: nobody opens them for a server.
fn way_in(folder: &str, place: &Place, who: &Who) -> String {
    let is_home = folder == "/root" || Path::new(folder).parent() == Some(Path::new("/home"));
    match is_home {
        true => format!("keep {} elsewhere, as below /opt/kumomta/etc or /var, and name that place", place.path),
        false => format!("chmod o+x {folder}, or chgrp {} {folder}", who.name),
    }
}

/// What is not there. A folder the server makes itself, if it may.
fn absent(place: &Place, who: &Who, why: &str) -> Finding {
    let (check, path) = ("rights", &place.path);
    let may_make = place.above.last().is_some_and(|(_, owned)| may(*owned, who, WRITE | ENTER));
    match place.usage {
        Use::Folder if may_make => Finding::ok(check, path, format!("not there yet: {} may make it", who.name)),
        Use::Folder => Finding::problem(check, path, why, format!("install -d -m 2770 -o {0} -g {0} {path}", who.name)),
        Use::Read | Use::Secret => Finding::problem(check, path, why, "write it, or correct the policy that names it"),
    }
}

/// Whether the kernel would let him, by owner and mode. Root may everything.
fn may(owned: Owned, who: &Who, wanted: u32) -> bool {
    let shift = match owned {
        _ if who.uid == 0 => return true,
        Owned { uid, .. } if uid == who.uid => 6,
        Owned { gid, .. } if who.gids.contains(&gid) => 3,
        _ => 0,
    };
    owned.mode >> shift & wanted == wanted
}

const READ: u32 = 4;
const WRITE: u32 = 2;
const ENTER: u32 = 1;

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    fn who(uid: u32) -> Who {
        Who { name: "kumod".to_owned(), uid, gids: vec![7, 8] }
    }

    fn owned(uid: u32, gid: u32, mode: u32) -> Owned {
        Owned { uid, gid, mode }
    }

    #[test]
    fn the_class_that_fits_first_counts() {
        assert!(may(owned(5, 1, 0o700), &who(5), READ | WRITE | ENTER));
        assert!(!may(owned(5, 1, 0o077), &who(5), READ), "the owner has the owner's rights, fewer than all others'");
        assert!(may(owned(1, 8, 0o040), &who(5), READ) && !may(owned(1, 8, 0o704), &who(5), READ));
        assert!(may(owned(1, 1, 0o001), &who(5), ENTER) && !may(owned(1, 1, 0o770), &who(5), READ));
        assert!(may(owned(1, 1, 0), &who(0), READ | WRITE | ENTER));
    }

    #[test]
    fn each_place_is_judged_by_what_it_is_for() {
        let root = ("/".to_owned(), owned(0, 0, 0o755));
        let judged = |usage, own: Owned, above: u32| {
            let above = vec![root.clone(), ("/x".to_owned(), owned(0, 0, above))];
            let finding = judge(&Place { path: "/x/y".to_owned(), usage, above, own: Ok(own) }, &who(5));
            (finding.verdict, finding.fix.unwrap_or_default())
        };
        assert_eq!(judged(Use::Folder, owned(5, 5, 0o700), 0o755).0, Verdict::Ok);
        assert_eq!(judged(Use::Folder, owned(5, 5, 0o500), 0o755), (Verdict::Problem, "chown kumod /x/y".to_owned()));
        assert!(judged(Use::Folder, owned(5, 5, 0o700), 0o750).1.starts_with("chmod o+x /x,"));
        assert_eq!(judged(Use::Read, owned(0, 0, 0o644), 0o755).0, Verdict::Ok);
        assert_eq!(judged(Use::Read, owned(0, 0, 0o640), 0o755).0, Verdict::Problem);
        assert_eq!(judged(Use::Secret, owned(5, 5, 0o600), 0o755).0, Verdict::Ok);
        assert!(judged(Use::Secret, owned(5, 5, 0o644), 0o755).1.starts_with("chmod 600 /x/y"));
        let of_strangers = judged(Use::Secret, owned(5, 9, 0o640), 0o755);
        assert_eq!(of_strangers, (Verdict::Warning, "chmod 600 /x/y".to_owned()));
        assert_eq!(judged(Use::Secret, owned(5, 8, 0o640), 0o755).0, Verdict::Ok, "a group of his");
        assert_eq!(judged(Use::Secret, owned(5, 9, 0o640), 0o711).0, Verdict::Warning);
        assert_eq!(judged(Use::Read, owned(5, 9, 0o640), 0o755).0, Verdict::Ok);
        let mut hidden = Place {
            path: "/x/y".to_owned(),
            usage: Use::Secret,
            above: vec![root.clone(), ("/x".to_owned(), owned(5, 5, 0o700))],
            own: Ok(owned(5, 5, 0o644)),
        };
        assert_eq!(judge(&hidden, &who(5)).verdict, Verdict::Ok, "nobody else comes so far");
        hidden.own = Err("Permission denied".to_owned());
        hidden.above[1].1 = owned(0, 0, 0o700);
        assert!(judge(&hidden, &who(5)).what.contains("may not enter /x"), "whatever is behind");
        for (home, is_opened) in [("/root", false), ("/home", true), ("/srv", true), ("/home!ann", false)] {
            hidden.above[1].0 = home.replace('!', "/");
            let fix = judge(&hidden, &who(5)).fix.unwrap_or_default();
            assert_eq!(fix.contains("chmod"), is_opened, "{home}: {fix}");
        }
        let own = Err("No such file".to_owned());
        let mut absent = Place { path: "/x/y".to_owned(), usage: Use::Folder, above: vec![root], own };
        let finding = judge(&absent, &who(5));
        assert_eq!(finding.fix.as_deref(), Some("install -d -m 2770 -o kumod -g kumod /x/y"));
        absent.above.push(("/x".to_owned(), owned(5, 5, 0o700)));
        assert_eq!(judge(&absent, &who(5)).verdict, Verdict::Ok, "it makes its folder itself");
        absent.usage = Use::Read;
        assert_eq!(judge(&absent, &who(5)).verdict, Verdict::Problem);
    }
}
